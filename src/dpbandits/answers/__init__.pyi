from ._answer import (
    Answer as Answer,
    Compared as Compared,
    Confirmed as Confirmed,
    FitCheck as FitCheck,
    Lead as Lead,
    OptionResult as OptionResult,
)
from ._answering import (
    answer_of as answer_of,
)
from ._bounds import (
    left_for_widths as left_for_widths,
)
from ._confirming import (
    confirmed_of as confirmed_of,
)
from ._fit_check import (
    fit_check_of as fit_check_of,
)
from ._needed import (
    participants_to_decide as participants_to_decide,
)
from ._radii import (
    Knowledge as Knowledge,
    radii as radii,
)
from ._rewards import (
    RewardRange as RewardRange,
)
