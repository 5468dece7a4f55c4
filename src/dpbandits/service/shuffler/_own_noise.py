"""The noise that a shuffler adds to its own sums, if the mechanism lets the servers add the noise."""

from __future__ import annotations

from dpbandits.privacy import KeyedNoise
from dpbandits.protocol import Plan, Sums, add_noise
from dpbandits.service.shuffler._context import ShufflerContext
from dpbandits.service.wire import Place, ProvedReports


def noised(
    context: ShufflerContext, plan: Plan, attempt: int, sums: Sums, share: bytes, checksum: str
) -> tuple[Sums, bytes]:
    """Add the shuffler's own noise to its sums, or to its aggregate share in mode `verified`.

    The noise is a function of the set that was summed and of a key that is not in the store. So a
    shuffler that computes the same sums again, for example from a backup, draws the same noise.
    """
    where = [plan.study, plan.digest, str(plan.phase), str(attempt), checksum]
    key = context.keys.derived("noise of a shuffler")
    noise = context.noise or KeyedNoise(key, [part.encode() for part in where])
    if not share:
        return add_noise(plan, sums, noise), b""
    drawn = plan.asked_mechanism.third_party_noise(noise)
    assert drawn is not None
    prio3 = ProvedReports.of(plan, Place.of(plan.study, plan, attempt, "")).prio3
    return sums, prio3.shift(share, drawn.tolist())
