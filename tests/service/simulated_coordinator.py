"""A script that runs a coordinator with the noise of `simulate(..., seed=SEED)`. It is run by path.

simulated_coordinator.py STUDY.toml SEED     as `dpbandits serve`, with the noise source of the simulator
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpbandits.privacy import SimulatedNoise
from dpbandits.service.config import read_study
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import configure_logs, serve

if __name__ == "__main__":
    configure_logs(level="INFO")
    file = read_study(Path(sys.argv[1]))
    _, privacy = np.random.SeedSequence(int(sys.argv[2])).spawn(2)
    noise = SimulatedNoise(np.random.default_rng(privacy))
    file = replace(file, context=replace(file.context, noise=noise))
    serve(coordinator_app(file.coordinator(), file.roles, file.limits), file.listening)
