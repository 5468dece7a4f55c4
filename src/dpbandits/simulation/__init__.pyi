from ._jobs import (
    Job as Job,
    Outcome as Outcome,
    Task as Task,
    run_tasks as run_tasks,
)
from ._run import (
    simulate as simulate,
)
from ._setting import (
    ALGORITHMS as ALGORITHMS,
    SCHEDULES as SCHEDULES,
    Setting as Setting,
)
from ._sweep import (
    Simulated as Simulated,
    run_once as run_once,
    sweep as sweep,
)
from ._trace import (
    PhaseTrace as PhaseTrace,
    RunTrace as RunTrace,
)
