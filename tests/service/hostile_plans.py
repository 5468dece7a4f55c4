"""Plans that a malicious coordinator may send: mutated valid plans, checked by a second accountant.

`python -m tests.service.hostile_plans --plans 100000 --seed 1` checks 100,000 plans. For each plan that a
client accepts, it checks that:

- δ at the client's ε does not exceed the δ that the client consented to. This δ is computed here with a short
  Fourier transform that shares no code with the library's accountant; it is a lower bound.
- A report can be made for extreme rewards without an exception, and all reports have the same length.

A plan that is not accepted must raise `Refused` and no other exception. No plan may take longer than two
seconds of CPU time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ive, ndtr

from dpbandits.errors import Refused
from dpbandits.privacy import PrivacyRequest, SimulatedNoise, calibrate
from dpbandits.protocol import Plan, decode, encode, respond_with_averages
from dpbandits.service.client import Consent
from dpbandits.service.wire import KeyPair, PartyTerms, SignedTerms, Terms, terms_of

from .helpers import small_study

Array = NDArray[np.float64]

LONGEST = 2.0  # seconds of CPU time that one plan may take
SLACK = 1.001  # the relative error that the computation of δ here may have, as a factor
KEY = str(KeyPair.new().public)
DATA = (0.0, -1.0, 1.0, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324)
EXTREME = (
    0, 1, -1, 2, 0.5, 1e-10, 1e-16, 1e-100, 1e-165, 1e-200, 1e-310, 5e-324, 1e10, 1e100, 1.7e308, 2**31,
    2**40, 2**53, 2**62, 2**63, 2**64, 10**30, -(2**63), 1e9, 1e-9, 0.1, 0.49, 0.51, 0.99, 3, 7, 63, 64,
    1000, 10**6, None, True, "x", [], {}, [1], "nan", "Infinity",
)  # fmt: skip


@dataclass
class Verdict:
    """The errors that were found, and the number of accepted plans."""

    problems: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_plan: str = ""


def bases() -> list[dict[str, Any]]:
    """Return honest plans of every trust model, noise and shape, as JSON, that give (1, 1e-6)-DP."""
    found = list[dict[str, Any]]()
    requests = [
        ("local", "discrete-gaussian", "box", 1e-6), ("local", "discrete-gaussian", "ball", 1e-6),
        ("local", "laplace", "box", 1e-6), ("local", "k-norm", "box", 0.0),
        ("shuffle", "binomial", "box", 1e-6),
        ("shuffle", "discrete-gaussian", "box", 1e-6), ("shuffle", "discrete-gaussian", "ball", 1e-6),
        ("shuffle", "skellam", "box", 1e-6), ("shuffle", "polya", "box", 0.0),
        ("central", "discrete-gaussian", "ball", 1e-6), ("central", "k-norm", "box", 0.0),
        ("central", "ball-norm", "ball", 0.0),
    ]  # fmt: skip
    for trust, noise, shape, delta in requests:
        request = PrivacyRequest(trust=trust, epsilon=1.0, delta=delta, noise=noise, minimum_share=0.9)
        for support, cohort in ((1, 8), (3, 40), (20, 500)):
            made = calibrate(request, coordinates=support, cohort=cohort, bound=1.0, shape=shape)
            plan = Plan(
                study="0" * 64,
                phase=1,
                support=tuple(range(support)),
                plays=(10,) * support,
                rank=support,
                mechanism=made,
                offsets=(0.25,) * support,
                mixing=tuple(tuple(np.eye(support)[row].tolist()) for row in range(support)),
            )
            found.append(json.loads(encode(plan)))
    return found


def terms_for(trust: str) -> SignedTerms:
    """Return terms that promise (1, 1e-6)-DP and allow everything else."""
    party = PartyTerms(url="https://party.test", key=KEY)
    shuffler = party if trust == "shuffle" else None
    mode = "split" if trust == "shuffle" else ""
    terms = terms_of(small_study(trust), run="0" * 32, coordinator=party, shuffler=shuffler, mode=mode)
    noises = ("ball-norm", "binomial", "discrete-gaussian", "k-norm", "laplace", "polya", "skellam")
    widest = {"epsilon": 1.0, "delta": 1e-6, "minimum_reports": 1, "largest_cohort": 2**40, "noises": noises}
    return SignedTerms.of(msgspec.structs.replace(terms, **widest))


SIGNED = {trust: terms_for(trust) for trust in ("central", "local", "shuffle")}
TERMS: dict[str, Terms] = {trust: signed.opened() for trust, signed in SIGNED.items()}
CONSENT = Consent(trusts=("central", "local", "shuffle"), epsilon=1.0, delta=1e-6)


def mutated(base: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a copy with one to three fields changed, slightly or to an extreme value."""
    plan = json.loads(json.dumps(base))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        own = plan["mechanism"]
        inside = own if isinstance(own, dict) and own and rng.random() < 0.8 else plan
        name = rng.choice(sorted(inside))
        inside[name] = _other(inside[name], rng)
    return dict(plan)


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], _other(value[place], rng), *value[place + 1 :]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and rng.random() < 0.6:
        factor = rng.choice((0.5, 0.8, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1, 2, 10, 0.1, 1e3, 1e-3))
        return round(value * factor) if isinstance(value, int) and rng.random() < 0.9 else value * factor
    if isinstance(value, str) and rng.random() < 0.6:
        return rng.choice(
            (
                "box",
                "ball",
                "discrete-gaussian",
                "laplace",
                "k-norm",
                "ball-norm",
                "polya",
                "skellam",
                "binomial",
            )
        )
    if number and rng.random() < 0.8:
        kind = int if isinstance(value, int) else float
        return kind(rng.choice([one for one in EXTREME if type(one) in (int, float) and abs(one) < 1e300]))
    return rng.choice(EXTREME)


def text_of(plan: dict[str, Any]) -> bytes:
    """Encode as JSON the way a malicious coordinator may, including NaN and infinity."""
    text = json.dumps(plan, allow_nan=True)
    return text.replace('"Infinity"', "1e999").replace('"nan"', "NaN").encode()


def judge(body: bytes, trust: str, verdict: Verdict) -> None:
    """Decode and check a plan as a client does."""
    began = time.process_time()
    signed = SIGNED[trust]
    try:
        plan = decode(body, Plan)
        CONSENT.check(plan, TERMS[trust], signed)
    except Refused:
        verdict.outcomes["refused"] += 1
    except Exception as error:  # the errors of decoding, which the client turns into `Refused`
        expected = ("InvalidValue", "NotAvailable", "OutsideTheorem", "FloatingPointNoise")
        if type(error).__name__ in expected:
            verdict.outcomes["unreadable"] += 1
        else:
            verdict.problems.append(f"{type(error).__name__} {error}: {body[:400]!r}")
    else:
        verdict.outcomes["accepted"] += 1
        _examine(plan, body, verdict)
    took = time.process_time() - began
    if took > verdict.slowest:
        verdict.slowest, verdict.slowest_plan = took, body[:600].decode()
    if took > LONGEST:
        verdict.problems.append(f"took {took:.1f} s: {body[:400]!r}")


def _examine(plan: Plan, body: bytes, verdict: Verdict) -> None:
    assert plan.mechanism is not None
    delta = true_delta(json.loads(encode(plan.mechanism)), CONSENT.epsilon)
    if not delta <= CONSENT.delta * SLACK:
        verdict.problems.append(f"accepted with δ ≥ {delta:.3g}: {body[:600]!r}")
    if plan.mechanism.message.size > 1 << 20:
        verdict.outcomes["accepted, too large to try"] += 1
        return
    noise = SimulatedNoise(np.random.default_rng(1))
    for value in DATA:
        averages = [value, *([1.0] * (len(plan.support) - 1))]
        try:
            size = len(respond_with_averages(plan, averages, noise).payload)
        except Exception as error:
            verdict.problems.append(f"{value}: {type(error).__name__} {error}: {body[:600]!r}")
        else:
            if size != plan.mechanism.message.size:
                verdict.problems.append(f"{value} gives {size} bytes: {body[:600]!r}")


def true_delta(mechanism: dict[str, Any], epsilon: float) -> float:
    """Return a lower bound of δ(ε): that of two opposite corners, or of the ends of an axis of a ball."""
    levels, support = mechanism["levels"], mechanism["coordinates"]
    shares = 1
    if "silent_share" in mechanism:  # else one party, or each server for itself, adds the noise
        shares = math.floor(mechanism["least_reports"] * (1 - mechanism["silent_share"]) + 1e-9)
    if mechanism["kind"] == "shuffled-bits":
        places = [
            (sign * mechanism["bound"] + mechanism["reach"]) * levels / (2 * mechanism["reach"])
            for sign in (-1, 1)
        ]
        shift = math.floor(places[1] - places[0])  # rounded down, so that δ is a lower bound
        if shift < 1:
            return 0.0
        bits, chance = shares * mechanism["noise_bits"], mechanism["noise_probability"]
        if bits > 10**9:
            return _wide(math.sqrt(bits * chance * (1 - chance)), shift, support, epsilon)
        return _composed(_binomial(bits, chance), shift, support, epsilon)
    if mechanism["noise"] == "k-norm":
        return _box_norm(mechanism["scale"], levels, support, epsilon)
    if mechanism["noise"] == "ball-norm":
        return _ball_norm(mechanism["scale"], levels, support, mechanism["shape"], epsilon)
    scale = mechanism["scale"]
    laws = {
        "discrete-gaussian": lambda: _gaussian(scale, shares),
        "server-gaussian": lambda: _gaussian(scale, shares),
        "skellam": lambda: _skellam(shares * scale**2),
        "laplace": lambda: _laplace(scale),
        "polya": lambda: _laplace(scale),
    }
    coordinates = 1 if mechanism.get("shape") == "ball" else support
    wide = ("discrete-gaussian", "server-gaussian", "skellam")
    if scale * math.sqrt(shares) > MOST / 16 and mechanism["noise"] in wide:
        return _wide(scale * math.sqrt(shares), levels, coordinates, epsilon)
    return _composed(laws[mechanism["noise"]](), levels, coordinates, epsilon)


MOST = 1 << 21


def _window(deviation: float) -> Array:
    """Return integers around zero with all relevant mass; only every `step`-th one if there are too many."""
    reach = min(MOST, max(64, math.ceil(12 * deviation)))
    return np.arange(-reach, reach + 1, dtype=np.float64)


def _normal(log_weights: Array) -> Array:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _gaussian(scale: float, shares: int) -> Array:
    one = _normal(-(_window(scale) ** 2) / (2 * scale**2))
    if shares == 1 or scale > 2:  # a sum of wide discrete Gaussians is a discrete Gaussian
        deviation = scale * math.sqrt(shares)
        return _normal(-(_window(deviation) ** 2) / (2 * deviation**2))
    size = 1 << math.ceil(math.log2(2 * max(64, math.ceil(14 * scale * math.sqrt(shares))) + 1))
    padded = np.zeros(size)
    reach = (len(one) - 1) // 2
    for offset, weight in zip(range(-reach, reach + 1), one, strict=True):
        padded[offset % size] += weight
    total = np.fft.irfft(np.fft.rfft(padded) ** shares, size).clip(1e-18)
    return np.asarray(np.fft.fftshift(total)[1:])


def _skellam(variance: float) -> Array:
    points = np.abs(_window(math.sqrt(variance) + 3))
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(ive(points, variance), 1e-300, None))


def _laplace(scale: float) -> Array:
    return _normal(-np.abs(_window(4 * scale)) / scale)


def _binomial(bits: int, chance: float) -> Array:
    centre, deviation = bits * chance, math.sqrt(bits * chance * (1 - chance))
    reach = min(MOST, max(64, math.ceil(14 * deviation)))
    points = np.arange(
        max(0, math.floor(centre) - reach), min(bits, math.ceil(centre) + reach) + 1, dtype=np.float64
    )
    log_weights = gammaln(bits + 1) - gammaln(points + 1) - gammaln(bits - points + 1)
    return _normal(log_weights + points * math.log(chance) + (bits - points) * math.log1p(-chance))


def _wide(deviation: float, shift: int, coordinates: int, epsilon: float) -> float:
    """Return δ(ε) of normal noise, the limit of noise that is wider than any window here."""
    ratio = shift * math.sqrt(coordinates) / deviation
    return 0.999 * float(
        ndtr(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * ndtr(-ratio / 2 - epsilon / ratio)
    )


def _composed(pmf: Array, shift: int, coordinates: int, epsilon: float) -> float:
    """Round the privacy losses down to a grid and convolve them with a Fourier transform."""
    if shift >= len(pmf):
        return 1.0
    one, other = pmf[shift:], pmf[:-shift]  # where both distributions have mass
    keep = (one > 1e-17) & (other > 1e-17)
    losses, mass = np.log(one[keep] / other[keep]), one[keep]
    if not len(losses):
        return 1.0
    grid = max(float(np.ptp(losses)) * math.sqrt(coordinates) / 2**15, 1e-9)
    places = np.floor(losses / grid).astype(np.int64)
    size = 1 << 18
    counts = np.bincount(places % size, weights=mass, minlength=size)
    total = np.fft.irfft(np.fft.rfft(counts) ** coordinates, size).clip(0)
    values = np.arange(size)
    mean = coordinates * float((mass * places).sum())
    values = values + size * np.round((mean - values) / size)  # the window around the mean
    above = values * grid > epsilon
    found = float((total[above] * -np.expm1(epsilon - values[above] * grid)).sum())
    return max(0.0, found * (1 - 1e-6) - 1e-9)  # minus the possible rounding error of the transform


def _ball_norm(scale: float, levels: int, support: int, shape: str, epsilon: float) -> float:
    """Estimate δ(ε) of opposite points of an axis, or of opposite corners, as `_box_norm` does."""
    distance = levels if shape == "ball" else levels * math.sqrt(support)
    if distance / scale <= epsilon * (1 + 1e-12):
        return 0.0
    rng = np.random.default_rng(3)
    directions = rng.standard_normal((4000, support))
    lengths = rng.gamma(support, scale, size=4000) / np.linalg.norm(directions, axis=1)
    points = directions * lengths[:, None]
    moved = points + np.eye(support)[0] * distance
    losses = (np.linalg.norm(moved, axis=1) - np.linalg.norm(points, axis=1)) / scale
    gained = np.clip(-np.expm1(epsilon - losses), 0, None)
    return max(0.0, float(gained.mean()) - 6 * float(gained.std()) / math.sqrt(4000))


def _box_norm(scale: float, levels: int, support: int, epsilon: float) -> float:
    """Estimate δ(ε) of two opposite corners by simulation, with a sampler written here."""
    if levels / scale <= epsilon * (1 + 1e-12):
        return 0.0
    rng = np.random.default_rng(3)
    radius = rng.gamma(support + 1, scale, size=4000)
    points = np.rint(radius[:, None] * rng.uniform(-1, 1, (4000, support)))
    losses = (np.abs(points + levels).max(axis=1) - np.abs(points).max(axis=1)) / scale
    gained = np.clip(-np.expm1(epsilon - losses), 0, None)
    return max(0.0, float(gained.mean()) - 6 * float(gained.std()) / math.sqrt(4000))


def run(plans: int, seed: int, *, until: str | None = None) -> Verdict:
    """Check this number of plans, or fewer, until a problem has these words. A seed gives the same plans."""
    rng, found, verdict = random.Random(seed), bases(), Verdict()
    for number in range(plans):
        base = found[number % len(found)]
        trust = {"local-lattice": "local", "central-lattice": "central"}.get(
            base["mechanism"]["kind"], "shuffle"
        )
        honest = {**base, "study": SIGNED[trust].digest}
        plan = honest if number < len(found) else mutated(honest, rng)
        judge(text_of(plan), trust, verdict)
        if until and any(until in problem for problem in verdict.problems):
            break
        if sys.stderr.isatty() and number % 1000 == 0:
            print(f"\r{number:,} plans", end="", file=sys.stderr)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge hostile plans")
    parser.add_argument("--plans", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    verdict = run(options.plans, options.seed)
    for problem in verdict.problems[:20]:
        print(problem)
    counted = ", ".join(f"{count:,} {name}" for name, count in sorted(verdict.outcomes.items()))
    print(f"{options.plans:,} plans: {counted}; {len(verdict.problems)} problems")
    print(f"slowest: {verdict.slowest:.2f} s of CPU, {verdict.slowest_plan[:300]}")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
