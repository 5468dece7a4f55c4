"""SIGKILL at every journal step: no accepted report is lost or counted twice, and no release is repeated."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from dpbandits.storage._sql import SqlStore

from .crashing import CLIENTS, Crashing, Killer, in_a_fork, releases_of
from .helpers import expected_course, small_study

CENTRAL = [
    *(
        f"{name}-{when}"
        for name in ("begin", "enrol", "ask", "join", "gathered")
        for when in ("before-commit", "after-commit")
    ),
    *(
        f"{name}-{when}"
        for name in ("played", "report", "closed", "release", "learn")
        for when in ("before-commit", "after-commit")
    ),
    "release-noise-drawn",
    "release-intended",
    "release-journalled",
]
SHUFFLE = [
    *(
        f"{name}-{when}"
        for name in ("opened", "call", "report", "release")
        for when in ("before-commit", "after-commit")
    ),
    "shuffler-opened",
    "shuffler-closed",
    "sums-journalled",
    "release-noise-drawn",
    "release-intended",
]
TRUSTED = [*SHUFFLE, "revealed-sums-before-commit", "revealed-sums-after-commit"]
SPLIT = [*SHUFFLE, "own-sums-before-commit", "own-sums-after-commit"]
# The steps that the other modes do not have, or in which other data is journalled. `python -m tests.faults
# --mode verified` kills at all steps.
VERIFIED = [
    "verifiers-computed",
    "page-verified",
    "own-sums-before-commit",
    "own-sums-after-commit",
    "sums-journalled",
]

CASES = [
    *(("central", None, step) for step in CENTRAL),
    *(("shuffle", "trusted", step) for step in TRUSTED),
    *(("shuffle", "split", step) for step in SPLIT),
    *(("shuffle", "verified", step) for step in VERIFIED),
]


@pytest.mark.parametrize(("trust", "mode", "step"), CASES)
def test_a_study_survives_sigkill(trust: str, mode: str | None, step: str, tmp_path: Path) -> None:
    def once(killer: Killer) -> None:
        Crashing(tmp_path, trust, mode, killer).to_the_end()

    assert in_a_fork(lambda: once(Killer(step))) == -signal.SIGKILL
    store = SqlStore(f"sqlite:///{tmp_path / 'coordinator.sqlite'}")
    before = releases_of(store)
    store.close()
    assert in_a_fork(lambda: once(Killer())) == 0
    store = SqlStore(f"sqlite:///{tmp_path / 'coordinator.sqlite'}")
    released = releases_of(store)
    assert {phase: released[phase] for phase in before} == before
    assert sorted(released) == [1, 2]
    accepted = {tuple(json.loads(line)) for line in (tmp_path / "accepted.jsonl").read_text().splitlines()}
    assert len({name for _, _, name in accepted}) == len(accepted) <= CLIENTS
    minimum = {1: 3, 2: 5}
    for phase, (attempt, release) in released.items():
        counted = [name for p, a, name in accepted if (p, a) == (phase, attempt)]
        assert minimum[phase] <= release.reports == len(counted)
    with store.transaction() as transaction:
        for attempt in transaction.attempts():
            assert list(transaction.reports(attempt.phase, attempt.number)) == []
            assert attempt.over
    store.close()
    if mode is not None:  # the coordinator adds no noise: the sums are those of the clients' reports
        reported = {
            phase: [name for p, a, name in sorted(accepted) if (p, a) == (phase, attempt)]
            for phase, (attempt, _) in released.items()
        }
        final = expected_course(small_study(trust, share=0.5), reported)[-1]
        assert [evidence.reports for evidence in final.history] == [
            release.reports for _, release in released.values()
        ]
