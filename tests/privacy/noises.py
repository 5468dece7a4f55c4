"""The noises of the built-in trust models, for tests that try all of them."""

from dpbandits.privacy import TRUST_MODELS

NOISES = {name: TRUST_MODELS[name].noises for name in ("none", "central", "local", "shuffle")}
PURE_NOISES = tuple(dict.fromkeys(n for name in NOISES for n in TRUST_MODELS[name].pure_noises))
