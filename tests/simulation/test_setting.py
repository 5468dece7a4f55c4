"""Settings of simulations: their fields, defaults and refusals."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from dpbandits.errors import InvalidValue, NotAvailable
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Study
from dpbandits.simulation import Cohorts, Problem, Setting


def test_fields_of_all_parts_are_given_by_name() -> None:
    setting = Setting.of(trust="central", actions=7, alpha=0.5, horizon=99)
    assert setting == Setting(
        problem=Problem(actions=7),
        privacy=PrivacyRequest(trust="central"),
        cohorts=Cohorts(alpha=0.5),
        horizon=99,
    )
    assert Setting.of(**setting.as_dict()) == setting
    assert len({hash(setting), hash(Setting.of(**setting.as_dict()))}) == 1


def test_no_two_parts_have_a_field_of_the_same_name() -> None:
    names = [field.name for part in (Setting, Problem, PrivacyRequest, Cohorts) for field in fields(part)]
    assert len(names) == len(set(names))


def test_a_field_with_the_name_of_a_field_of_the_study_is_that_field() -> None:
    given: dict[str, Any] = {
        "horizon": 5000, "bound": 2.0, "bounded_rewards": False, "design_tolerance": 1.5,
        "when_clients_run_out": "stop", "confidence": 0.9, "stop_when_decided": True, "stop_gap": 0.1,
        "objective": "identification", "privacy": PrivacyRequest(trust="central"),
    }  # fmt: skip
    shared = {field.name for field in fields(Setting)} & {field.name for field in fields(Study)}
    assert shared == set(given)
    setting = Setting.of(actions=5, dimension=2, schedule="exponential", **given)
    study = setting.study(setting.instance(0).actions)
    assert {name: getattr(study, name) for name in given} == given
    chosen = {"horizon", "bounded_rewards", "design_tolerance", "privacy"}  # with a default of their own
    same = shared - chosen
    assert {name: getattr(Setting, name) for name in same} == {name: getattr(Study, name) for name in same}


def test_a_change_keeps_everything_else() -> None:
    setting = Setting.of(trust="central", epsilon=2, dimension=5)
    changed = setting.changed(epsilon=3, horizon=50)
    assert changed == Setting.of(trust="central", epsilon=3, dimension=5, horizon=50)
    assert setting.changed() == setting
    assert setting.changed(problem=Problem(actions=3), dimension=2).problem == Problem(actions=3, dimension=2)


def test_the_default_is_a_real_guarantee_and_the_papers_is_asked_for_by_name() -> None:
    assert (Setting().privacy.epsilon, Setting().privacy.delta) == (1, 1e-6)
    paper = Setting.paper(trust="local").privacy
    assert (paper.trust, paper.epsilon, paper.delta) == ("local", 10, 0.25)
    assert Setting.paper(delta=0.1).privacy.delta == 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "colour: got red, expected a field of Setting"),
        ({"algorithm": "x"}, "algorithm: got 'x'"),
        ({"schedule": "x"}, "schedule: got 'x'"),
        ({"participants": 0}, "participants: got 0"),
        ({"actions": 0}, "actions: got 0"),
        ({"heterogeneity": -1.0}, "heterogeneity: got -1"),
        ({"assumed_heterogeneity": -1.0}, "assumed_heterogeneity: got -1"),
        ({"without": ("x",)}, "without: got 'x'"),
        ({"algorithm": "pe", "maximum_cohort": 3}, "maximum_cohort: got 3, expected none"),
        ({"trust": "central", "epsilon": 0.0}, "epsilon: got 0"),
    ],
)
def test_bad_values_are_refused_when_a_setting_is_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Setting.of(**changes)
    assert message in str(refused.value)


def test_a_mechanism_that_does_not_exist_is_refused_when_a_setting_is_made() -> None:
    with pytest.raises(NotAvailable, match="paper has no such mechanism"):
        Setting.of(trust="shuffle", preset="paper", delta=0)
