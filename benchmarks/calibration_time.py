"""Calibration times over a seeded random grid of requests; the slowest are printed.

    python benchmarks/calibration_time.py --requests 500 --seed 0

The exit status is 1 if a calibration takes more than 5 s of processor time, or if δ at the claimed ε exceeds
the requested δ in the tight preset.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

import numpy as np

from dpbandits.errors import InvalidValue, NotAvailable, OutsideTheorem
from dpbandits.privacy import TRUST_MODELS, PrivacyRequest, calibrate, may_use_ball

MOST_SECONDS = 5.0


def random_request(rng: np.random.Generator) -> PrivacyRequest | None:
    """Return a request of any trust model, noise and preset; None if there is no such mechanism."""
    trust = str(rng.choice(["central", "local", "shuffle"]))
    noise = str(rng.choice(TRUST_MODELS[trust].noises))
    delta = 0.0 if rng.random() < 0.1 else float(np.exp(rng.uniform(np.log(1e-10), np.log(0.25))))
    try:
        return PrivacyRequest(
            trust=trust,
            epsilon=float(np.exp(rng.uniform(np.log(0.01), np.log(30)))),
            delta=delta,
            preset=str(rng.choice(["tight", "paper"], p=[0.8, 0.2])),
            noise=noise,
            minimum_share=float(rng.choice([1.0, rng.uniform(0.01, 1)])),
            silent_share=float(rng.choice([0.0, rng.uniform(0, 0.9)])),
        )
    except NotAvailable:
        return None


def measure(rng: np.random.Generator) -> tuple[float, str] | None:
    """Return the seconds, and a description of the request."""
    request = random_request(rng)
    coordinates, cohort = int(rng.integers(1, 101)), int(np.exp(rng.uniform(0, np.log(1e6))))
    if request is None:
        return None
    shape = "ball" if may_use_ball(request) and rng.random() < 0.3 else "box"
    start = process_time()
    try:
        mechanism = calibrate(request, coordinates=coordinates, cohort=cohort, bound=1.0, shape=shape)
    except (InvalidValue, OutsideTheorem, NotAvailable) as error:
        return process_time() - start, f"{error} <- {request} {coordinates=} {cohort=} {shape=}"
    seconds = process_time() - start
    delta = mechanism.event.delta(request.epsilon)
    if request.preset == "tight" and not delta <= request.delta:
        raise SystemExit(f"delta: got {delta}, expected at most that of {request}")
    return seconds, f"{request} {coordinates=} {cohort=} {shape=}"


def main() -> int:
    """Measure and print the slowest requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    found = sorted(one for _ in range(options.requests) if (one := measure(rng)) is not None)
    for seconds, what in found[-10:]:
        print(f"{seconds:8.3f} s  {what}")
    return int(found[-1][0] > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
