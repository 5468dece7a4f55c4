"""A client reports only for the phase of its plan and a possible attempt; it refuses any other."""

from __future__ import annotations

import pytest

from dpbandits.errors import Refused
from dpbandits.service.client import ClientCore, Consent
from dpbandits.service.client._client import Agreed

from .helpers import small_study
from .test_terms import agreed

CONSENT = Consent(trusts=("local",), epsilon=20, delta=1e-3)


@pytest.mark.parametrize(("phase", "attempt"), [(1, 0), (1, -1), (1, 10**9), (2, 1), (0, 1), (-1, 1)])
def test_nothing_is_sealed_for_a_place_that_is_not_the_plans(phase: int, attempt: int) -> None:
    terms, signed, plan = agreed(small_study("local"))
    core = ClientCore(url="http://c", consent=CONSENT, agreed=Agreed(terms=terms, signed=signed), plan=plan)
    core.memory.phase, core.memory.attempt = phase, attempt
    with pytest.raises(Refused, match="no-consent"):
        next(core.report([0.1] * len(plan.support)))
    assert core.memory.sealed == b""
    core.memory.phase, core.memory.attempt = plan.phase, 1
    assert next(core.report([0.1] * len(plan.support))).url.endswith("/v1/phases/1/attempts/1/reports")
