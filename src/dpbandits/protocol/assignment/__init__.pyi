from ._everyone import (
    CohortErrors as CohortErrors,
)
from ._interface import (
    Assignment as Assignment,
    Crowd as Crowd,
    MeanErrors as MeanErrors,
    Played as Played,
    Pull as Pull,
)
from ._rules import (
    ASSIGNMENTS as ASSIGNMENTS,
)
