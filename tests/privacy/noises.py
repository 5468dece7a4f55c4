"""The noises of the built-in trust models, for tests that try all of them."""

from dpbandits.privacy import TRUST_MODELS

NOISES = {name: TRUST_MODELS[name].noises for name in ("none", "central", "local", "shuffle")}
PURE_NOISES = tuple(dict.fromkeys(n for name in NOISES for n in TRUST_MODELS[name].pure_noises))
CLIENT_NOISES = tuple(noise for noise in NOISES["shuffle"] if noise != TRUST_MODELS["shuffle"].server_noise)
"""The noises of the shuffle model that clients share."""
