from ._catalogue import EXPERIMENTS as EXPERIMENTS
from ._drawing import draw as draw
from ._experiment import (
    FULL_RUNS as FULL_RUNS,
    QUICK_RUNS as QUICK_RUNS,
    Experiment as Experiment,
    Results as Results,
    Scale as Scale,
    Work as Work,
)
from ._files import data_files as data_files
from ._findings import (
    SCOPES as SCOPES,
    Check as Check,
    Curve as Curve,
    Findings as Findings,
    Panel as Panel,
    Table as Table,
    overall as overall,
)
from ._report import report as report
from ._running import Item as Item, examined as examined, named as named, tasks_of as tasks_of
