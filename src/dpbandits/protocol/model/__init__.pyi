from ._interface import (
    Bracket as Bracket,
    Comparison as Comparison,
    Fit as Fit,
    RewardModel as RewardModel,
    fitted as fitted,
)
from ._linear import (
    Linear as Linear,
    LinearFit as LinearFit,
)
from ._registry import (
    REWARD_MODELS as REWARD_MODELS,
    register_model as register_model,
)
