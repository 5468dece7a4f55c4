"""A trust model is one value in one file: the library asks it, and never compares its name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dpbandits
from dpbandits import Actions, Plan, Setting, decode, encode, plan_study
from dpbandits.cli import main
from dpbandits.errors import InvalidValue, NotAvailable, Refused
from dpbandits.privacy import (
    MECHANISMS,
    TRUST_MODELS,
    Mechanism,
    PrivacyRequest,
    SimulatedNoise,
    TrustModel,
    audit,
    calibrate,
    calibrate_per_action,
    guarantee,
    may_use_ball,
    register,
    register_trust,
    typical_deviation,
)
from dpbandits.privacy.trust import CentralLattice, LocalLattice
from dpbandits.protocol import ask
from dpbandits.service.client import Consent
from dpbandits.service.wire import KeyPair, PartyTerms, SignedTerms, new_run, terms_of
from dpbandits.simulation import run_once

HERE = Path(__file__).parent
SMALL = {"actions": 30, "dimension": 3, "horizon": 20_000, "participants": 400}


@pytest.fixture(name="toy", scope="module")
def _toy() -> Iterator[ModuleType]:
    from . import toy_trust_model

    register_trust(toy_trust_model.ENCLAVE)  # again, if an earlier import was forgotten
    yield toy_trust_model
    TRUST_MODELS.remove("enclave")
    MECHANISMS.remove("enclave-sum")


def test_a_new_trust_model_is_calibrated_and_guaranteed(toy: ModuleType) -> None:
    request = PrivacyRequest(trust="enclave", epsilon=2.0, delta=0.0)
    mechanism = calibrate(request, coordinates=4, cohort=50, bound=0.7)
    assert isinstance(mechanism, toy.EnclaveSum)
    assert mechanism.event.delta(2.0) == 0
    assert mechanism.event.delta(1.99) > 0
    held = guarantee(request, [mechanism])
    assert held is not None
    assert (held.trust, held.delta, held.noise) == ("enclave", 0.0, "laplace")
    assert held.needs.startswith("the enclave is trusted")
    typical = typical_deviation(request, coordinates=4, clients=50, bound=0.7)
    assert typical == mechanism.error_deviation(50)
    mechanisms = calibrate_per_action(request, cohorts=[5, 9], bounds=[1.0, 0.5])
    assert [(own.coordinates, own.cohort, own.bound) for own in mechanisms] == [(1, 5, 1.0), (1, 9, 0.5)]


@pytest.mark.usefixtures("toy")
def test_a_new_trust_model_is_planned_and_simulated() -> None:
    privacy = PrivacyRequest(trust="enclave", epsilon=4.0, delta=0.0)
    actions = Actions.generate("sphere", count=30, dimension=3, rng=1)
    study = plan_study(actions=actions, horizon=20_000, participants=400, privacy=privacy)
    plan = ask(study.begin())
    assert plan.mechanism is not None
    assert plan.mechanism.kind == "enclave-sum"
    assert decode(encode(plan), Plan) == plan
    for algorithm in ("dpe", "pe"):
        setting = Setting.of(algorithm=algorithm, trust="enclave", delta=0.0, **_without_budget(algorithm))
        trace = run_once(setting, 0)
        assert trace.guarantee is not None
        assert (trace.guarantee.trust, trace.guarantee.delta) == ("enclave", 0.0)


def _without_budget(algorithm: str) -> dict[str, int]:
    return {k: v for k, v in SMALL.items() if algorithm == "dpe" or k != "participants"}


@pytest.mark.usefixtures("toy")
def test_a_new_trust_model_is_in_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--actions", "30", "--dimension", "3", "--horizon", "20000"]
    asked = ["--trust", "enclave", "--delta", "0"]
    simulation = ["simulate", *asked, *problem, "--schedule", "equal", "--participants", "400"]
    simulation += ["--runs", "1", "--workers", "1", "--json", "-"]
    assert main(simulation) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["mechanism"]["kind"] == "enclave-sum"
    assert main(["account", *asked, "--cohort", "100", "--coordinates", "3", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"]["delta_upper"] == 0
    assert main(["audit", *asked, "--samples", "400", "--simulated-noise"]) == 0
    assert "enclave with laplace noise" in capsys.readouterr().out
    assert main(["plan", *asked, *problem, "--participants", "400", "--runs", "0", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["trust"] == "enclave"


@pytest.mark.usefixtures("toy")
def test_clients_consent_to_a_new_trust_model_by_its_name() -> None:
    privacy = PrivacyRequest(trust="enclave", epsilon=1.0, delta=0.0)
    actions = Actions.generate("sphere", count=30, dimension=3, rng=1)
    study = plan_study(actions=actions, horizon=20_000, participants=400, privacy=privacy)
    own = PartyTerms(url="https://coordinator.test", key=str(KeyPair.new().public))
    terms = terms_of(study, run=new_run(), coordinator=own)
    assert (terms.mechanisms, terms.noises) == (("enclave-sum",), ("laplace",))
    signed = SignedTerms.of(terms)
    plan = ask(replace(study, terms=signed.digest).begin())
    consent = Consent(trusts=("enclave",))
    consent.check_terms(terms)
    consent.check(plan, terms, signed)
    with pytest.raises(Refused, match="trust: got enclave, expected one of local, shuffle"):
        Consent().check_terms(terms)
    mechanism = LocalLattice(
        coordinates=plan.numbers, cohort=9, bound=1.0, levels=16, noise="laplace", scale=2.0
    )
    with pytest.raises(Refused, match="the plan's trust model is not enclave"):
        consent.check(replace(plan, mechanism=mechanism), terms, signed)


def test_the_audit_plays_against_the_view_of_the_model(toy: ModuleType) -> None:
    request = PrivacyRequest(trust="enclave", epsilon=1.0, delta=0.0)
    noise = SimulatedNoise(np.random.default_rng(1))
    honest = calibrate(request, coordinates=1, cohort=4, bound=1.0)
    assert not audit(honest, noise, epsilon=1.0, delta=0.0, samples=2000).violated
    careless = replace(honest, scale=honest.scale / 8)  # type: ignore[type-var, attr-defined]
    assert audit(careless, noise, epsilon=1.0, delta=0.0, samples=2000).violated


@pytest.mark.usefixtures("toy")
def test_what_a_model_does_not_offer_is_refused() -> None:
    with pytest.raises(InvalidValue, match="noise: got 'k-norm', expected one of laplace$"):
        PrivacyRequest(trust="enclave", noise="k-norm")
    with pytest.raises(NotAvailable, match="preset: got paper with trust enclave"):
        _ = PrivacyRequest(trust="enclave", preset="paper").mechanism_noise
    assert not may_use_ball(PrivacyRequest(trust="enclave"))
    with pytest.raises(
        InvalidValue, match="trust: got 'enclav', expected one of none, central, local, shuffle"
    ):
        PrivacyRequest(trust="enclav")


def test_names_in_use_are_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Fake(LocalLattice):
        kind: str = "local-lattice"

    with pytest.raises(InvalidValue, match="kind: got local-lattice from .*, expected a name that .*_local"):
        register(Fake)
    with pytest.raises(InvalidValue, match="trust: got local from "):
        register_trust(_model(name="local", mechanisms=()))
    assert MECHANISMS["local-lattice"] is LocalLattice


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"noise_by": "somebody"}, "noise_by"),
        ({"view": "all"}, "view"),
        ({"pure_noises": ("laplace",)}, "noise"),
        ({"mechanisms": (CentralLattice,)}, "CentralLattice.trust: got central, expected odd"),
    ],
)
def test_a_model_that_contradicts_itself_is_refused(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue, match=field):
        _model(**changes)


def _model(**changes: object) -> TrustModel:
    def never(request: PrivacyRequest, **sizes: object) -> Mechanism:
        raise NotImplementedError

    fields: dict[str, object] = {
        "name": "odd", "rests_on": "nothing", "noise_by": "client", "view": "report", "mechanisms": (),
        "calibrate": never,
    }  # fmt: skip
    return TrustModel(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_built_in_models_are_listed_in_order_whatever_is_imported_first() -> None:
    code = (
        "from dpbandits.privacy.trust import ShuffledBits\n"
        "from dpbandits.privacy import MECHANISMS, TRUST_MODELS\n"
        "print(*TRUST_MODELS); print(*MECHANISMS)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        "none central local shuffle",
        "none central-gaussian central-lattice local-gaussian local-lattice local-band "
        "local-list shuffled-bits summed-shares server-noise",
    ]


def test_no_module_compares_the_names_of_trust_models() -> None:
    source = Path(dpbandits.__file__).parent
    compared = re.compile(r"trust (==|!=) [\"']|(?<!for )trust (not )?in \([\"']")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if compared.search(path.read_text(encoding="utf-8"))
    }
    assert found <= {"experiments/_figure_2a.py"}  # which draws the paper's own models


LIGHT = """
import json, sys
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Plan, decode, respond_with_averages
import numpy as np
PrivacyRequest(trust="local", epsilon=1, delta=1e-6)
for case in json.load(sys.stdin):
    plan = decode(case["plan"], Plan)
    respond_with_averages(plan, case["averages"], SimulatedNoise(np.random.default_rng(0)))
print(sorted(name for name in sys.modules if name.startswith("scipy")))
"""


def test_a_client_decodes_plans_and_reports_without_scipy() -> None:
    vectors = (HERE.parent / "service" / "vectors" / "reports.json").read_text(encoding="utf-8")
    cases = json.loads(vectors)
    box_norm = json.loads(cases[2]["plan"])
    assert box_norm["mechanism"]["kind"] == "local-lattice"
    box_norm["mechanism"]["noise"] = "k-norm"
    cases.append({**cases[2], "plan": json.dumps(box_norm)})
    shown = subprocess.run(
        [sys.executable, "-c", LIGHT], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    assert shown.stdout == "[]\n"


@pytest.mark.parametrize("name", [name for name, model in TRUST_MODELS.items() if model.private])
def test_a_model_lists_the_noises_whose_mechanisms_are_sub_gaussian(name: str) -> None:
    model = TRUST_MODELS[name]
    for noise in model.noises:
        delta = 0.0 if model.is_pure(noise) else 1e-6
        request = PrivacyRequest(trust=name, epsilon=1, delta=delta, noise=noise)
        mechanism = calibrate(request, coordinates=2, cohort=100, bound=1.0)
        assert mechanism.sub_gaussian == (noise in model.sub_gaussian_noises), noise


def test_every_mechanism_belongs_to_a_registered_model() -> None:
    assert {made.trust for made in MECHANISMS.values()} <= set(TRUST_MODELS)
    for name, model in TRUST_MODELS.items():
        assert model.name == name
        assert all(model.is_pure(noise) for noise in model.pure_noises)


def test_the_guide_shows_the_file_that_is_tested() -> None:
    guide = (HERE.parents[1] / "docs" / "how-to" / "new-trust-model.md").read_text(encoding="utf-8")
    source = (HERE / "toy_trust_model.py").read_text(encoding="utf-8")
    assert f"```python\n{source}```\n" in guide
    fields = set(re.findall(r"^\| `(\w+)`(?:, `(\w+)`)?", guide, flags=re.MULTILINE))
    named = {name for pair in fields for name in pair if name}
    assert named == set(TrustModel.__dataclass_fields__)
