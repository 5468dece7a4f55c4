from ._calibration import (
    calibrate as calibrate,
    least_width as least_width,
    may_use_ball as may_use_ball,
    noise_tails as noise_tails,
    noise_widths as noise_widths,
    typical_deviation as typical_deviation,
)
from ._guarantee import (
    NEIGHBOURING as NEIGHBOURING,
    PRESETS as PRESETS,
    Guarantee as Guarantee,
    PrivacyRequest as PrivacyRequest,
    guarantee as guarantee,
    weakest as weakest,
)
from ._limits import (
    MOST_CLIENTS as MOST_CLIENTS,
    checked_bound as checked_bound,
    checked_entries as checked_entries,
    tamed as tamed,
)
from ._mechanism import (
    SHAPES as SHAPES,
    Mechanism as Mechanism,
)
from ._message import (
    Message as Message,
    Payload as Payload,
    Reach as Reach,
)
from ._per_action import (
    calibrate_per_action as calibrate_per_action,
    per_action_deviations as per_action_deviations,
    per_action_radius as per_action_radius,
)
from ._registry import (
    MECHANISMS as MECHANISMS,
    TRUST_MODELS as TRUST_MODELS,
    Registry as Registry,
    register as register,
)
from ._trust_model import (
    TrustModel as TrustModel,
    register_trust as register_trust,
)
from .auditing._game import (
    AuditResult as AuditResult,
    Claim as Claim,
    Violation as Violation,
    audit as audit,
)
from .noise._keyed import (
    KeyedNoise as KeyedNoise,
)
from .noise._secure import (
    SecureNoise as SecureNoise,
    require_secure as require_secure,
)
from .noise._sources import (
    NoiseSource as NoiseSource,
    SimulatedNoise as SimulatedNoise,
)
