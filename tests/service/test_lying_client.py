"""A dishonest client can send only what an honest client can send: central, local and trusted shuffle.

In split mode no party can check a single report, so one client can move the sums anywhere. A test shows this.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from dpbandits.errors import Refused
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Plan, Release, decode
from dpbandits.service.wire import bound_share, hashed

from .helpers import MODELS, Deployment, Member, small_study

CHECKED = [
    ("central", None, None),
    ("local", None, None),
    ("local", None, "laplace"),
    ("shuffle", "trusted", None),
    ("shuffle", "trusted", "discrete-gaussian"),
    ("shuffle", "trusted", "skellam"),
]


def collecting(
    trust: str, mode: str | None, noise: str | None = None
) -> tuple[Deployment, list[Member], Plan]:
    privacy = PrivacyRequest(trust=trust, epsilon=20, delta=1e-3, noise=noise)
    deployed = Deployment(study=small_study(trust, privacy=privacy), mode=mode)
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    return deployed, members, deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))


def sealed(deployed: Deployment, plan: Plan, member: Member, plaintext: bytes) -> bytes:
    reader = deployed.keys if deployed.mode is None else deployed.shuffler_keys
    place = deployed.context.place(plan, 1, member.pseudonym)
    return reader.public.seal(plaintext, place, "report")


def lies(plan: Plan) -> list[bytes]:
    """Return reports of the right length that no honest client sends."""
    assert plan.mechanism is not None
    message = plan.mechanism.message
    if (
        message.kind == "bits"
    ):  # every bit string of the right length is in range, except for the padding bits
        size = plan.asked_mechanism.message.size
        padded = 8 * size > np.prod(message.shape)
        return [b"\xff" * size] if padded else []
    numbers = plan.numbers
    wrong = [
        2**61,
        -(2**61),
        2**62,
        -(2**62),
        2**63 - 1,
        -(2**63),
        int(message.high) + 1,
        int(message.low) - 1,
    ]
    rows = [np.full(numbers, value, dtype=np.int64) for value in wrong]
    corner = np.full(numbers, int(message.high), dtype=np.int64)
    if message.largest_square is not None and not message.admitted(corner[None])[0]:
        rows.append(corner)
    return [row.astype("<i8").tobytes() for row in rows]


@pytest.mark.parametrize(("trust", "mode", "noise"), CHECKED)
def test_a_report_that_no_honest_client_sends_is_refused(
    trust: str, mode: str | None, noise: str | None
) -> None:
    deployed, members, plan = collecting(trust, mode, noise)
    assert plan.mechanism is not None
    made = lies(plan)
    assert made
    for plaintext in made:
        with pytest.raises(Refused, match="unreadable"):
            deployed.send(members[0], sealed(deployed, plan, members[0], plaintext))
    deployed.report(members)  # the honest report is still accepted
    with deployed.store.transaction() as transaction:
        (release,) = (decode(record.body, Release) for record in transaction.releases())
    assert release.reports == 6
    deployed.close()


@pytest.mark.parametrize(("trust", "mode", "noise"), CHECKED)
def test_the_most_extreme_report_that_is_admitted_moves_a_mean_by_no_more_than_its_reach(
    trust: str, mode: str | None, noise: str | None
) -> None:
    found = list[Release]()
    for extreme in (False, True):
        deployed, members, plan = collecting(trust, mode, noise)
        assert plan.mechanism is not None
        message, last = plan.mechanism.message, members[-1]
        if extreme and message.kind != "bits":
            row = np.full(plan.numbers, int(message.high), dtype=np.int64)
            while not message.admitted(row[None])[0]:
                row = row - np.maximum(1, (row - message.twice_centre // 2) // 100)
            deployed.send(last, sealed(deployed, plan, last, row.astype("<i8").tobytes()))
        elif extreme:
            ones = np.packbits(np.ones(int(np.prod(message.shape)), dtype=np.uint8)).tobytes()
            deployed.send(last, sealed(deployed, plan, last, ones))
        deployed.report(members[:-1] if extreme else members)
        with deployed.store.transaction() as transaction:
            found.append(decode(transaction.releases()[0].body, Release))
        deployed.close()
    assert plan.mechanism is not None
    reach = plan.mechanism.reach_of_one(6)
    moved = np.abs(np.array(found[0].means) - np.array(found[1].means)).max()
    noise = 12 * plan.mechanism.error_deviation(6)  # the noise of the two cohorts differs
    assert moved <= reach.mean + noise


def test_in_split_mode_one_liar_moves_the_sums_and_the_release_is_flagged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployed, members, plan = collecting("shuffle", "split", "discrete-gaussian")
    assert plan.mechanism is not None
    place = deployed.context.place(plan, 1, members[0].pseudonym)
    far = np.full(plan.numbers, 3 << (plan.mechanism.sum_bits - 3), dtype="<i8")
    nothing = np.zeros(plan.numbers, dtype="<i8")
    bound = bound_share(far.tobytes(), place, hashed(members[0].token))
    body = deployed.shuffler_keys.public.seal(nothing.tobytes(), place, "share-shuffler")
    deployed.send(members[0], body + deployed.keys.public.seal(bound, place, "share-coordinator"))
    with caplog.at_level(logging.WARNING, logger="dpbandits.service"):
        deployed.report(members[1:])
    assert "implausible" in caplog.messages
    results = deployed.run(deployed.coordinator.operator.results)
    assert [phase.plausible for phase in results.phases] == [False]
    deployed.close()


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_honest_releases_are_not_flagged(trust: str, mode: str | None) -> None:
    deployed = Deployment(study=small_study(trust), mode=mode)
    deployed.whole_study()
    results = deployed.run(deployed.coordinator.operator.results)
    assert [phase.plausible for phase in results.phases] == [True, True]
    deployed.close()
