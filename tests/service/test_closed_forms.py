"""The closed forms of docs/protocol.md accept only what the accountant proves, and are not much looser."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import pytest

from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
from dpbandits.service.wire import proved_delta

from . import closed_forms
from .test_vectors import PLANS

# trust, noise, shape, and the largest ratio of the ε of the closed form to that of the calibration
LAWS = [
    ("local", "list", "ball", 1.0),
    ("local", "discrete-gaussian", "box", 1.4),
    ("local", "discrete-gaussian", "ball", 1.4),
    ("central", "discrete-gaussian", "ball", 1.4),
    ("central", "ball-norm", "ball", 1.0),
    ("shuffle", "discrete-gaussian", "ball", 1.4),
    ("shuffle", "skellam", "box", 1.4),
    ("shuffle", "binomial", "box", 1.5),
    ("local", "k-norm", "box", 1.0),
    ("shuffle", "polya", "box", 6.0),
    ("local", "laplace", "box", 6.0),
]


def _made(trust: str, noise: str, shape: str, epsilon: float, numbers: int) -> Mechanism:
    request = PrivacyRequest(trust=trust, epsilon=epsilon, delta=1e-6, noise=noise, minimum_share=0.9)
    return calibrate(request, coordinates=numbers, cohort=1000, bound=1.0, shape=shape)


def _least_epsilon(mechanism: dict[str, Any], delta: float) -> float:
    """Return the least ε of a grid that the closed form proves; the grid has steps of one percent."""
    grid = (0.01 * 1.01**step for step in range(1000))
    return next((one for one in grid if closed_forms.private(mechanism, one, delta)), math.inf)


def _cases() -> Iterator[tuple[Mechanism, float, str]]:
    for trust, noise, shape, factor in LAWS:
        for epsilon in (0.3, 1.0, 3.0):
            for numbers in (1, 3, 20):
                yield _made(trust, noise, shape, epsilon, numbers), epsilon * factor, f"{trust} {noise}"


def _unproved(least: Callable[[dict[str, Any], float], float], delta: float) -> list[str]:
    """Return the mechanisms for which the closed form claims more than the accountant can prove."""
    found = []
    for made, _, name in _cases():
        own = least(msgspec.to_builtins(made), delta)
        if own < math.inf and proved_delta(made, own) > delta:
            found.append(name)
    return found


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_what_a_closed_form_proves_is_proved_by_the_accountant(delta: float) -> None:
    assert _unproved(_least_epsilon, delta) == []


def test_a_closed_form_that_forgets_something_is_noticed() -> None:
    with mock.patch.object(closed_forms, "distance", lambda own: own["levels"] * 0.7):
        assert "local discrete-gaussian" in _unproved(_least_epsilon, 1e-6)
    with mock.patch.object(closed_forms, "noisy", lambda own: 2 * own.get("least_reports", 1)):
        found = set(_unproved(_least_epsilon, 1e-6))
    assert {"shuffle discrete-gaussian", "shuffle skellam", "shuffle binomial"} <= found


def test_a_limit_that_is_often_exceeded_is_not_proved() -> None:
    made = _made("shuffle", "discrete-gaussian", "ball", 1.0, 3)
    assert closed_forms.private(msgspec.to_builtins(made), 1.4, 1e-6)
    tight = replace(made, largest_share=round(3 * made.scale))  # type: ignore[type-var, attr-defined]
    assert not closed_forms.private(msgspec.to_builtins(tight), 1.4, 1e-6)


def test_closed_forms_are_not_much_looser_than_the_accountant() -> None:
    for made, most, name in _cases():
        assert _least_epsilon(msgspec.to_builtins(made), 1e-6) <= most * 1.01, (name, made)


@pytest.mark.parametrize("case", [one for one in PLANS if one["accept"]], ids=lambda case: case["name"])
def test_the_accepted_plans_of_the_vectors_need_no_accountant(case: dict[str, Any]) -> None:
    assert closed_forms.private(json.loads(case["plan"])["mechanism"], 1.0, 1e-6)


@pytest.mark.parametrize(
    "case", [one for one in PLANS if "does not hold" in one["reason"]], ids=lambda case: case["name"]
)
def test_the_plans_without_enough_noise_are_refused(case: dict[str, Any]) -> None:
    assert not closed_forms.private(json.loads(case["plan"])["mechanism"], 1.0, 1e-6)
