"""The ClientApp with seeded noise, for tests. No file or option of the library can select it."""

from __future__ import annotations

import numpy as np

from dpbandits.federation import SiteFile
from dpbandits.federation.flower import run_client_app
from dpbandits.privacy import NoiseSource, SimulatedNoise


def noise_of(site: int) -> NoiseSource:
    return SimulatedNoise(np.random.default_rng(1000 + site))


def _noise(file: SiteFile) -> NoiseSource:
    return noise_of(int(file.path.parent.name.rsplit("-", 1)[1]))


if __name__ == "__main__":
    run_client_app(noise=_noise)
