"""Variance of one report in the local model, compared with the least that any unbiased report can have.

    python benchmarks/local_variance.py [--check]

For a vector in the unit ball the optimum is PrivUnit with its best cap (Asi, Feldman and Talwar 2022). It is
computed here by direct integration over the cap, not by the code of the mechanism. Gaussian noise is the
analytic one at δ = 10⁻⁶. With `--check` the exit status is 1 if a list exceeds 1.05 times the optimum.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy.integrate import quad

from dpbandits.privacy import PrivacyRequest, SecureNoise, calibrate
from dpbandits.privacy.accounting import gaussian_noise_ratio

DIMENSIONS, EPSILONS, LIMIT = (2, 8, 20, 50), (0.5, 1.0, 3.0, 10.0), 1.05


def optimum(dimension: int, epsilon: float) -> float:
    """Return the least total variance of an unbiased report of a unit vector."""
    whole = quad(lambda angle: math.sin(angle) ** (dimension - 2), 0, math.pi)[0]

    def alignment(angle: float) -> float:
        share = quad(lambda other: math.sin(other) ** (dimension - 2), 0, angle)[0] / whole
        moment = math.sin(angle) ** (dimension - 1) / (dimension - 1) / whole
        return math.expm1(epsilon) * moment / (math.expm1(epsilon) * share + 1)

    best = max(alignment(angle) for angle in np.linspace(0.01, math.pi / 2, 2000))
    return float(best**-2 - 1)


def shipped(dimension: int, epsilon: float) -> float:
    """Return the total variance of the shipped mechanism for a unit vector, from its mean alignment."""
    request = PrivacyRequest(trust="local", epsilon=epsilon, delta=0)
    mechanism = calibrate(request, coordinates=dimension, cohort=1000, bound=1.0, shape="ball")
    assert mechanism.kind == "local-list", mechanism.kind
    return float(mechanism.alignment.mean**-2 - 1)  # type: ignore[attr-defined]


def vectors() -> bool:
    """Print the table for vectors; return whether every ratio is within the limit."""
    print(f"{'d':>4}{'ε':>6}{'Gaussian':>12}{'optimum':>12}{'list':>12}{'÷ optimum':>12}")
    worst = 0.0
    for dimension in DIMENSIONS:
        for epsilon in EPSILONS:
            gaussian = dimension * (2 * gaussian_noise_ratio(epsilon, 1e-6)) ** 2
            least, own = optimum(dimension, epsilon), shipped(dimension, epsilon)
            worst = max(worst, own / least)
            print(f"{dimension:4}{epsilon:6g}{gaussian:12,.1f}{least:12,.3f}{own:12,.3f}{own / least:12.4f}")
    print(f"largest ratio {worst:.4f}, limit {LIMIT}")
    return worst <= LIMIT


def numbers() -> None:
    """Print the table for one number in [−1, 1]."""
    print(f"\n{'ε':>4}  {'levels, width':<15}{'band':>10}{'response':>10}{'piecewise':>10}{'Laplace':>10}")
    for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0):
        request = PrivacyRequest(trust="local", noise="list", epsilon=epsilon, delta=0)
        band = calibrate(request, coordinates=1, cohort=1000, bound=1.0)
        half = math.exp(epsilon / 2)
        others = (math.tanh(epsilon / 2) ** -2, 4 * half / (3 * (half - 1) ** 2), 8 / epsilon**2)
        shape = f"{band.levels}, {band.width}"  # type: ignore[attr-defined]
        print(
            f"{epsilon:4g}  {shape:<15}{band.error_deviation(1) ** 2:10.4f}"
            + "".join(f"{one:10.4f}" for one in others)
        )


def costs() -> None:
    """Print the bytes of a report, the client's CPU time, and how many reports a core decodes per second."""
    print(f"\n{'d':>4}{'ε':>6}{'list':>7}{'bytes':>7}{'client, ms':>12}{'decoded a second':>18}")
    for epsilon in (1.0, 10.0):
        request = PrivacyRequest(trust="local", epsilon=epsilon, delta=0)
        own = calibrate(request, coordinates=20, cohort=10**6, bound=1.0, shape="ball")
        rows, noise = np.full((1, 20), 0.1), SecureNoise()
        own.randomize(rows, noise)
        started = time.process_time()
        for _ in range(50):
            own.randomize(rows, noise)
        client = (time.process_time() - started) / 50
        batch = np.random.default_rng(0).integers(int(own.message.high), size=(200_000, 1))
        started = time.process_time()
        own.analyze(batch, len(batch), noise)
        decoded = len(batch) / (time.process_time() - started)
        sizes = f"{own.size:7}{own.message.size:7}"  # type: ignore[attr-defined]
        print(f"{20:4}{epsilon:6g}{sizes}{1000 * client:12.2f}{decoded:18,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    within = vectors()
    numbers()
    costs()
    raise SystemExit(int(options.check and not within))
