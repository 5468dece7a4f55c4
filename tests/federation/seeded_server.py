"""The ServerApp with seeded noise, for tests. No file or option of the library can select it."""

from __future__ import annotations

import numpy as np

from dpbandits.federation.flower import run_server_app
from dpbandits.privacy import SimulatedNoise

if __name__ == "__main__":
    run_server_app(noise=SimulatedNoise(np.random.default_rng(7)))
