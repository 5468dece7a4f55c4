"""Whether every phase gets the noise with the least error, for each trust model, ε and size of a report.

    python benchmarks/least_noise.py [--numbers 1 2 5 ...] [--clients 5000] [--check]
    python benchmarks/least_noise.py --whitened

For each setting the radius of the error of a mean (β = 10⁻⁶, in a diagonal direction) is computed from the
calibrated mechanism of every noise that can be named, in the box that contains the reports and, where it is
accounted for, in the ball. Two ratios must not exceed 1.01: the chosen noise to the best named one in the
same region, and the best choice at δ = 10⁻⁶ to the best choice at δ = 0. With `--check`, the exit status is 1
if a ratio exceeds this limit.

`--whitened` compares all noises of the central model where the learner clips later phases: reports with
identity covariance are clipped to a box of half side m or to a ball of radius √numbers + m, where m is the
clip margin.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np

from dpbandits.privacy import PrivacyRequest, calibrate, may_use_ball
from dpbandits.protocol._clipping import MARGIN

EPSILONS = (0.3, 1.0, 3.0, 10.0)
NUMBERS = (1, 2, 3, 5, 8, 12, 20, 35, 60)
CONFIDENCE, LIMIT = 1e-6, 1.01


def radius(request: PrivacyRequest, numbers: int, clients: int, shape: str) -> tuple[str, float]:
    """Return the noise and the radius of its error in a diagonal direction, for a region of radius one."""
    # The box of the same volume order: both regions hold vectors whose entries are about 1/√numbers.
    bound = 1.0 if shape == "ball" else numbers**-0.5
    mechanism = calibrate(
        request, coordinates=numbers, cohort=clients, bound=bound, shape=shape, confidence=CONFIDENCE
    )
    diagonal = np.full((1, numbers), numbers**-0.5)
    found = mechanism.error_radius(diagonal, np.zeros(1), CONFIDENCE, clients)
    return mechanism.noise_name, float(found[0])


def regions(request: PrivacyRequest, numbers: int, clients: int) -> dict[str, tuple[str, float]]:
    """Return the chosen noise and its radius in each region."""
    found = {"box": radius(request, numbers, clients, "box")}
    if may_use_ball(request):
        found["ball"] = radius(request, numbers, clients, "ball")
    return found


def named(request: PrivacyRequest, numbers: int, clients: int, shape: str) -> dict[str, float]:
    """Return the radius of every noise that can be named, except those for simulations."""
    model, found = request.trust_model, dict[str, float]()
    for noise in model.noises:
        if noise in model.simulated_noises or (request.pure and noise not in model.pure_noises):
            continue
        if shape == "ball" and noise not in model.ball_noises:
            continue
        found[noise] = radius(replace(request, noise=noise), numbers, clients, shape)[1]
    return found


def whitened(sizes: list[int], clients: int) -> None:
    """Print the radius of every noise of the central model in the box and the ball of whitened reports."""
    for delta in (0.0, 1e-6):
        for epsilon in EPSILONS:
            request = PrivacyRequest(trust="central", epsilon=epsilon, delta=delta)
            for numbers in sizes:
                scaled = {"box": MARGIN * numbers**0.5, "ball": numbers**0.5 + MARGIN}
                found = {
                    f"{shape} {noise}": bound * size
                    for shape, bound in scaled.items()
                    if shape == "box" or may_use_ball(request)
                    for noise, size in named(request, numbers, clients, shape).items()
                }
                least = min(found.values())
                shown = ", ".join(f"{name} {size / least:.2f}" for name, size in found.items())
                print(f"({epsilon:g}, {delta:g}) {numbers:3} numbers, ÷ the least: {shown}")


def main() -> int:
    """Print one row per setting, and the largest ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, nargs="+", default=list(NUMBERS))
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a ratio is too large")
    parser.add_argument("--whitened", action="store_true")
    options = parser.parse_args()
    if options.whitened:
        whitened(options.numbers, options.clients)
        return 0
    worst_named = worst_pure = 0.0
    for trust in ("central", "local", "shuffle"):
        for epsilon in EPSILONS:
            for numbers in options.numbers:
                request = PrivacyRequest(trust=trust, epsilon=epsilon, delta=1e-6)
                chosen = regions(request, numbers, options.clients)
                pure = regions(replace(request, delta=0.0), numbers, options.clients)
                to_pure = max(chosen[shape][1] / pure[shape][1] for shape in pure)
                ratios = {}
                for shape, (_, own) in chosen.items():
                    others = named(request, numbers, options.clients, shape)
                    ratios[shape] = own / min(others.values())
                worst_named, worst_pure = max(worst_named, *ratios.values()), max(worst_pure, to_pure)
                shown = ", ".join(
                    f"{shape} {noise} {ratios[shape]:.3f}" for shape, (noise, _) in chosen.items()
                )
                compared = f"{shown}; δ = 10⁻⁶ ÷ δ = 0: {to_pure:.3f}"
                print(f"{trust:8} ε = {epsilon:<4g} {numbers:3} numbers: {compared}")
                sys.stdout.flush()
    print(
        f"largest: chosen ÷ best named {worst_named:.3f}, δ = 10⁻⁶ ÷ δ = 0 {worst_pure:.3f} (limit {LIMIT})"
    )
    return int(options.check and max(worst_named, worst_pure) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
