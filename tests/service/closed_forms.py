"""The conditions of docs/protocol.md, section Checking (ε, δ), in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

ORDERS = (*range(2, 200), *(round(200 * 1.1**k) for k in range(80)))  # α of Skellam noise


def private(mechanism: Mapping[str, Any], epsilon: float, delta: float) -> bool:
    """Return whether the page proves (ε, δ) for a mechanism, given as its JSON object."""
    kind = mechanism["kind"]
    if kind == "none":
        return False
    if kind in ("local-list", "local-band"):
        return math.log(mechanism["top_weight"] / mechanism["other_weight"]) <= epsilon
    if kind == "shuffled-bits":
        return mechanism["noise_probability"] == 0.5 and _binomial(mechanism, epsilon, delta)
    limit = mechanism.get("largest_share")
    if limit is not None:
        replaced = mechanism["cohort"] * replaced_chance(mechanism, limit)
        delta -= (1 + math.exp(min(epsilon, 700.0))) * replaced
    return delta >= 0 and _noise(mechanism, epsilon, delta)


def _noise(mechanism: Mapping[str, Any], epsilon: float, delta: float) -> bool:
    numbers, levels, scale = mechanism["coordinates"], mechanism["levels"], mechanism["scale"]
    noise, clients = mechanism["noise"], noisy(mechanism)
    if noise == "k-norm":
        return bool(levels / scale <= epsilon)
    if noise == "ball-norm":
        return bool(distance(mechanism) / scale <= epsilon)
    if noise in ("laplace", "polya"):
        return bool(numbers * levels / scale <= epsilon)
    if noise == "skellam":
        variance = clients * max(1, round(2**31 * scale**2)) / 2**31
        rho, more = numbers * levels**2 / (2 * variance), 3 * numbers * levels / (2 * variance)
        exponents = ((order - 1) * (order * rho + more - epsilon) for order in ORDERS)
        return any(math.exp(min(exponent, 0.0)) <= delta for exponent in exponents)
    if clients > 1:
        if scale < 1:
            return False
        factor = 7 * numbers * clients * math.exp(-((math.pi * scale) ** 2))
        epsilon, delta = epsilon - 2 * factor, delta * math.exp(-factor)
    rho = distance(mechanism) ** 2 / (2 * clients * scale**2)
    return bool(rho <= epsilon and math.exp(-((epsilon - rho) ** 2) / (4 * rho)) <= delta)


def _binomial(mechanism: Mapping[str, Any], epsilon: float, delta: float) -> bool:
    if delta <= 0:
        return False
    numbers, levels, bits = mechanism["coordinates"], mechanism["levels"], mechanism["noise_bits"]
    total = noisy(mechanism) * bits
    far = math.sqrt(total * math.log(4 * numbers / delta) / 2)
    summed = math.sqrt(numbers * total * math.log(2 / delta) / 2)
    angle = 2 * (far + levels) / (total + 1)
    if angle >= 1:
        return False
    curved = angle**2 / (3 * (1 - angle**2))
    loss = 2 * numbers * levels**2 + 4 * levels * summed + 4 * curved * numbers * levels * (far + levels)
    return bool(loss / (total + 1) <= epsilon)


def noisy(mechanism: Mapping[str, Any]) -> int:
    """Return the number of clients whose noise counts."""
    if "least_reports" not in mechanism:
        return 1
    return math.floor(mechanism["least_reports"] * (1 - mechanism["silent_share"]) + 1e-9)


def distance(mechanism: Mapping[str, Any]) -> float:
    """Return how far two encoded inputs can be from one another."""
    numbers, levels = mechanism["coordinates"], mechanism["levels"]
    if mechanism["shape"] == "ball":
        return float((levels + 2 * math.sqrt(numbers)) * (1 + 2**-30))
    return float(levels * math.sqrt(numbers))


def replaced_chance(mechanism: Mapping[str, Any], limit: int) -> float:
    """Return q(L) of the page for the noise of shares."""
    numbers, scale, noise = mechanism["coordinates"], mechanism["scale"], mechanism["noise"]
    if noise == "polya":
        return float(2 * numbers * math.exp(-(limit + 1) / scale))
    if noise == "skellam":
        variance = max(1, round(2**31 * scale**2)) / 2**31
        slope = (limit + 1) / variance
        exponent = variance * (math.sqrt(1 + slope**2) - 1) - (limit + 1) * math.asinh(slope)
        return 2 * numbers * math.exp(exponent)
    longer = math.exp(-((limit / scale) ** 2) / 2) if mechanism["shape"] == "ball" else 0.0
    return float(2 * numbers * math.exp(-(((limit + 1) / scale) ** 2) / 2) + longer)
