"""A site: users are marked before their data are read, answers are repeated, and forged plans refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import InvalidValue, Refused
from dpbandits.federation import SiteAnswer, SiteLedger, TableSource, federation_terms, roles
from dpbandits.federation._answers import SiteAnswers
from dpbandits.federation._ledger import KnownAsk
from dpbandits.federation._messages import Ask, Refusal, SiteReport, Status, StatusRequest, packed, read_reply
from dpbandits.privacy import TRUST_MODELS, SimulatedNoise
from dpbandits.protocol import Plan, ask, encode, report_range
from dpbandits.rounds import Group
from dpbandits.service.client import Consent
from dpbandits.service.wire import Place
from dpbandits.storage import MemoryStore

from .helpers import KEYS, SITE_KEYS, TRUSTS, Federation, Population, study_of

GROUP = Group(phase=1, attempt=1, name="a", places=20)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path, study_of("central"), users=50)


def request(plan: Plan, attempt: int = 1, users: int = 20, text: str | None = None) -> bytes:
    group = replace(GROUP, attempt=attempt, places=users)
    return packed(
        Ask(plan=text or encode(plan).decode(), attempt=attempt, users=users, group=group.pseudonym)
    )


def refused(reply: bytes) -> str:
    found = read_reply(reply)
    assert isinstance(found, Refusal)
    return f"{found.reason}: {found.message}"


def test_a_repeated_request_gets_the_same_bytes_and_a_changed_one_none(federation: Federation) -> None:
    plan, site = ask(federation.study.begin()), federation.site(0)
    first = site.reply(request(plan))
    assert federation.site(0).reply(request(plan)) == first  # also after a restart
    members = federation.ledger(0).members(1, 1)
    assert len(members) == 20
    assert "changed-plan" in refused(site.reply(request(plan, users=19)))
    other = replace(plan, plays=(plan.plays[0] + 1, *plan.plays[1:]))
    assert "changed-plan" in refused(site.reply(request(other)))
    assert "changed-plan: this phase was asked" in refused(site.reply(request(other, attempt=2)))
    again = site.reply(request(plan, attempt=2))
    assert again != first
    assert not set(federation.ledger(0).members(1, 2)) & set(members)
    status = read_reply(site.reply(packed(StatusRequest(study=federation.signed.digest))))
    assert status == Status(study=federation.signed.digest, unused=10)
    assert isinstance(read_reply(site.reply(request(plan, attempt=3))), SiteAnswer)  # the last ten
    assert "no-users" in refused(site.reply(request(plan, attempt=4)))


class KilledError(Exception):
    pass


@pytest.mark.parametrize("step", ["averages", "marked", "computed", "kept"])
def test_a_site_that_dies_at_any_step_answers_once_for_the_same_users(
    step: str, federation: Federation
) -> None:
    read = list[list[str]]()

    class Watched(Population):
        def averages(self, users: list[str], plan: Plan) -> np.ndarray:
            assert federation.ledger(0).members(1, 1) == users  # marked before the data are read
            read.append(users)
            if step == "averages" and len(read) == 1:
                raise KeyboardInterrupt
            return super().averages(users, plan)

    def die(here: str) -> None:
        if here == step:
            raise KilledError

    plan, source = ask(federation.study.begin()), Watched(federation.study.actions, 0, 50)
    with pytest.raises(KeyboardInterrupt if step == "averages" else KilledError):
        federation.site(0, source=source, hook=die).reply(request(plan))
    kept = federation.ledger(0).ask(1, 1)
    assert kept is not None
    assert (kept.answer is not None) == (step == "kept")
    reply = federation.site(0, source=source).reply(request(plan))
    assert kept.answer in (None, reply)
    assert len({tuple(users) for users in read}) == 1
    report = SiteAnswers(MemoryStore(), KEYS, {"a": SITE_KEYS[0].public}).opened(plan, GROUP, reply)
    assert report.reports == len(read[0]) == 20


def test_dropouts_send_no_report_and_errors_say_nothing_about_users(federation: Federation) -> None:
    class Leaky(Population):
        def averages(self, users: list[str], plan: Plan) -> np.ndarray:
            if plan.phase == 1 and len(users) == 5:
                raise ValueError("alice has 0.7")
            found = super().averages(users, plan)
            found[::2] = np.nan
            return found[:, :1] if len(users) == 3 else found

    plan = ask(federation.study.begin())
    site = federation.site(0, source=Leaky(federation.study.actions, 0, 50))
    report = SiteAnswers(MemoryStore(), KEYS, {"a": SITE_KEYS[0].public}).opened(
        plan, GROUP, site.reply(request(plan))
    )
    assert report.reports == 10
    assert refused(site.reply(request(plan, 2, users=5))) == (
        "no-data: the data source of the site failed: ValueError"
    )
    assert "did not return one average per user and action" in refused(site.reply(request(plan, 3, users=3)))
    assert "dropped out" in refused(site.reply(request(plan, 4, users=1)))


def test_a_site_checks_terms_and_plans_as_a_client_does(federation: Federation) -> None:
    plan, site = ask(federation.study.begin()), federation.site(0)
    with pytest.raises(Refused, match="no-consent: privacy: got .20, 0.001.-DP, expected .19, 0.001.-DP"):
        federation.site(0, consent=Consent(trusts=("central",), epsilon=19, delta=1e-3))
    with pytest.raises(Refused, match="no-consent: trust: got central"):
        federation.site(0, consent=Consent(epsilon=20, delta=1e-3))
    weak = replace(plan, mechanism=replace(plan.asked_mechanism, scale=plan.asked_mechanism.scale / 2))
    assert "the noise does not give (20, 0.001)-DP" in refused(site.reply(request(weak)))
    assert "other terms" in refused(site.reply(request(replace(plan, study="0" * 64))))
    text = encode(plan).decode()
    unknown = text[:-1] + ',"more":1}'
    assert "fields that this version does not know" in refused(site.reply(request(plan, text=unknown)))
    assert "not a valid plan" in refused(site.reply(request(plan, text="{}")))
    assert "more users" in refused(site.reply(request(plan, users=41)))
    assert "other-terms" in refused(site.reply(packed(StatusRequest(study="0" * 64))))
    assert "unreadable" in refused(site.reply(b"\xff"))
    assert federation.ledger(0).members(1, 1) == []  # none of these used anybody up


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_lying_site_can_do_no_more_than_its_users(trust: str, tmp_path: Path) -> None:
    federation = Federation(tmp_path, study_of(trust))
    plan = ask(federation.study.begin())
    answers, place = (
        SiteAnswers(MemoryStore(), KEYS, {"a": SITE_KEYS[0].public}),
        Place.of(plan.study, plan, 1, GROUP.pseudonym),
    )

    def told(signer: int = 0, **changed: object) -> SiteReport:
        lie = SiteReport(**{**honest, **changed})  # type: ignore[arg-type]
        sealed = KEYS.public.seal(packed(lie), place, "report")
        signature = SITE_KEYS[signer].sign(sealed, place)
        answer = SiteAnswer(plan=plan.digest, unused=1, sealed=sealed, signature=signature)
        return answers.opened(plan, GROUP, packed(answer))

    found = answers.opened(plan, GROUP, federation.site(0).reply(request(plan)))
    honest = {name: getattr(found, name) for name in ("plan", "reports", "sums", "packed")}
    assert told() == found
    with pytest.raises(Refused, match="bad-answer: the site did not sign this answer"):
        told(signer=1)  # a SuperLink that replaces answers has no key of the site
    lies: list[dict[str, object]] = [{"reports": 21}, {"reports": 19, "packed": b"x"}, {"plan": "0" * 64}]
    if found.sums:
        too_much = found.reports * report_range(plan)[1] + 1
        lies += [{"sums": (sums, *found.sums[1:])} for sums in (too_much, -1, 2**62)]
        lies += [{"sums": found.sums[1:]}]
    else:
        lies += [{"sums": (1,)}, {"packed": b"\xff" * len(found.packed)}]
    for lie in lies:
        with pytest.raises(Refused, match="bad-answer"):
            told(**lie)


def test_a_ledger_serves_one_study_and_refuses_a_user_twice(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path / "ledger.sqlite", "a" * 64)
    assert (tmp_path / "ledger.sqlite").stat().st_mode & 0o077 == 0
    begun = KnownAsk(plan="p", users=2, group="g", answer=None)
    ledger.mark(1, 1, begun, ["alice", "bob"])
    with pytest.raises(Refused, match="already-used"):
        ledger.mark(1, 2, begun, ["carol", "alice"])
    assert ledger.unused(["alice", "bob", "carol"]) == ["carol"]  # all or none
    assert ledger.keep(1, 1, b"first") == ledger.keep(1, 1, b"second") == b"first"
    with pytest.raises(InvalidValue, match="ledger: got a ledger of terms aaaaaaaaaaaa"):
        SiteLedger(tmp_path / "ledger.sqlite", "b" * 64)


def test_every_trust_model_says_who_runs_the_superlink() -> None:
    expected = {
        "none": "anybody: nothing is protected",
        "local": "anybody: it need not be trusted",
        "shuffle": "the shuffler's operator",
        "central": "the server that users trust",
    }
    for name, operator in expected.items():
        assert roles(TRUST_MODELS[name]).operator.startswith(operator)
    assert "own site is trusted" in roles(TRUST_MODELS["local"]).needs
    assert "device" not in roles(TRUST_MODELS["local"]).needs
    needs = roles(TRUST_MODELS["shuffle"], study_of("shuffle")).needs
    assert "at least 20 of 20 reporting clients are real" in needs
    noisy = replace(
        study_of("shuffle"), privacy=replace(study_of("shuffle").privacy, noise="server-gaussian")
    )
    with pytest.raises(InvalidValue, match="noise: got server-gaussian"):
        federation_terms(noisy, address="127.0.0.1:1", key=KEYS.public)


def test_a_table_is_a_data_source(tmp_path: Path) -> None:
    path = tmp_path / "rewards.csv"
    path.write_text("user,a,b,c\nann,0.1,0.2,0.3\n\nbob,0.4,0.5,0.6\n\n")
    plan = Plan(study="s", phase=1, support=(2, 0), plays=(1, 1), rank=1, mechanism=None)
    assert TableSource(path).users() == ["ann", "bob"]
    assert TableSource(path).averages(["bob"], plan).tolist() == [[0.6, 0.4]]
    path.write_text("user,a\nann,secret\n")
    with pytest.raises(InvalidValue, match="a number in every cell") as caught:
        TableSource(path)
    assert "secret" not in str(caught.value)


def test_noise_is_secure_unless_a_test_passes_another(federation: Federation) -> None:
    from dpbandits.federation import Site
    from dpbandits.privacy import SecureNoise

    site = Site(
        source=Population(federation.study.actions, 0, 5),
        ledger=federation.ledger(0),
        key=SITE_KEYS[0],
        signed=federation.signed,
        consent=federation.consent(),
    )
    assert isinstance(site.noise, SecureNoise)
    assert isinstance(federation.site(0).noise, SimulatedNoise)
