"""One file per trust model (R, S, A and what each spends), noise, calibration and accounting."""

from dpbandits.privacy.audit import AuditResult, Claim, Violation, audit
from dpbandits.privacy.calibration import calibrate, may_use_ball
from dpbandits.privacy.guarantee import (
    NEIGHBOURING,
    NOISES,
    PRESETS,
    TRUST_MODELS,
    Guarantee,
    PrivacyRequest,
    guarantee,
    weakest,
)
from dpbandits.privacy.keyed import KeyedNoise
from dpbandits.privacy.mechanism import MECHANISMS, SHAPES, Mechanism, Message, register
from dpbandits.privacy.noise import NoiseSource, SimulatedNoise
from dpbandits.privacy.secure import SecureNoise, require_secure

__all__ = [
    "MECHANISMS",
    "NEIGHBOURING",
    "NOISES",
    "PRESETS",
    "SHAPES",
    "TRUST_MODELS",
    "AuditResult",
    "Claim",
    "Guarantee",
    "KeyedNoise",
    "Mechanism",
    "Message",
    "NoiseSource",
    "PrivacyRequest",
    "SecureNoise",
    "SimulatedNoise",
    "Violation",
    "audit",
    "calibrate",
    "guarantee",
    "may_use_ball",
    "register",
    "require_secure",
    "weakest",
]
