"""A study whose reports are larger than the configured limit does not start; the error names the limit."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import Refused
from dpbandits.protocol import encode
from dpbandits.service.config import read_shuffler
from dpbandits.service.shared import Limits
from dpbandits.service.shuffler import Shuffler
from dpbandits.service.wire import CollectionRequest
from dpbandits.storage import MemoryStore

from .helpers import Deployment, small_study
from .processes import ENVIRONMENT, Site

WIDE = Actions(np.eye(160))  # 160 numbers per report


def test_a_study_with_larger_reports_than_accepted_does_not_start(tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(30,), actions=WIDE)
    text = site.study_file.read_text()
    site.study_file.write_text(f"{text}[limits]\nbody_bytes = 1024\n")

    def started() -> subprocess.CompletedProcess[str]:
        command = site.coordinator()
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
        )

    refused = started()
    assert refused.returncode == 2
    assert "listening" not in refused.stderr
    (needed,) = re.findall(r"body_bytes: got 1024, expected at least (\d+)", refused.stderr)
    assert int(needed) > 1024
    assert started().stderr == refused.stderr  # nothing was journalled
    site.study_file.write_text(f"{text}[limits]\nbody_bytes = {needed}\n")
    with site.running("coordinator", site.coordinator()):
        site.wait_ready(site.url)
    site.study_file.write_text(f"{text}[limits]\nbody_bytes = {int(needed) - 1}\n")
    assert f"expected at least {needed}" in started().stderr  # also with the plan journalled


@pytest.mark.parametrize("mode", ["trusted", "split"])
def test_a_shuffler_refuses_a_plan_with_larger_reports_than_it_accepts(mode: str) -> None:
    deployed = Deployment(study=small_study("shuffle"), mode=mode)
    deployed.advance()
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    assert deployed.context.signed is not None
    assert deployed.link is not None
    request = CollectionRequest(
        study=deployed.context.name,
        terms=deployed.context.signed.terms,
        signature="",
        plan=encode(plan).decode(),
        members=["1" * 64],
    )
    slot = deployed.link.shuffler.slot((deployed.context.name, plan), 1, "ticket")
    enough, small = Limits(), Limits()
    object.__setattr__(enough, "body_bytes", slot.body_size)  # a small study; files accept 1024 or more
    object.__setattr__(small, "body_bytes", slot.body_size - 1)

    context = deployed.link.shuffler.context

    def shuffler(limits: Limits) -> Shuffler:
        return Shuffler(replace(context, limits=limits), MemoryStore())

    assert shuffler(enough).checked(1, request).plan == plan
    with pytest.raises(Refused, match=f"the shuffler's body_bytes: .* at least {slot.body_size}"):
        shuffler(small).checked(1, request)
    deployed.close()


def test_the_limits_of_a_shuffler_file_reach_the_shuffler(tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="split", cohorts=(5,))
    site.shuffler_file.write_text(site.shuffler_file.read_text() + "[limits]\nbody_bytes = 2048\n")
    limits = read_shuffler(site.shuffler_file).context.limits
    assert limits is not None
    assert limits.body_bytes == 2048
