from ._cohorts import SCHEDULES as SCHEDULES, Cohorts as Cohorts
from ._engine import BACKENDS as BACKENDS, Engine as Engine
from ._jobs import Job as Job, run_tasks as run_tasks
from ._problem import Problem as Problem
from ._run import simulate as simulate
from ._setting import ALGORITHMS as ALGORITHMS, PAPER_PRIVACY as PAPER_PRIVACY, Setting as Setting
from ._sweep import Simulated as Simulated, run_once as run_once, sweep as sweep
from ._trace import PhaseTrace as PhaseTrace, RunTrace as RunTrace
