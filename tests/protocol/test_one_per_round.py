"""Tests of the assignment "one_per_round": one client per round, and one cohort per action."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from dpbandits.actions import Actions
from dpbandits.errors import (
    InvalidValue,
    NotEnoughClients,
    OutsideTheorem,
    PlanMismatch,
    ProtocolError,
    TooFewReports,
)
from dpbandits.privacy import PrivacyRequest, SecureNoise, SimulatedNoise, calibrate, calibrate_per_action
from dpbandits.protocol import (
    LinearFit,
    PhaseEvidence,
    Plan,
    Release,
    Schedule,
    Study,
    analyze,
    ask,
    decode,
    encode,
    fitted,
    gather,
    predict,
    replay,
    respond,
    respond_with_averages,
    shuffle,
    simulate_groups,
    tell,
)
from dpbandits.protocol.assignment._one_per_round import PerActionErrors, clipping

from .helpers import run, simulate_release, small_study

CASES = [
    (trust, preset) for trust in ("none", "central", "local", "shuffle") for preset in ("tight", "paper")
]


def _normal(trust: str, **changes: Any) -> Study:
    """Return a study with sub-Gaussian noise, so that its widths follow from the covariance."""
    noise = {"central": "discrete-gaussian", "local": "discrete-gaussian", "shuffle": "binomial"}.get(trust)
    request = PrivacyRequest(trust=trust, epsilon=10, delta=0.25, noise=noise)
    return _study(trust, privacy=request, **changes)


def _study(trust: str = "none", preset: str = "tight", **changes: Any) -> Study:
    defaults = {"schedule": Schedule.one_client_per_round(3), "assignment": "one_per_round"}
    return small_study(trust, preset, **{**defaults, **changes})


def _noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def _answers(plan: Plan, noise: Any, reward: float = 0.5) -> list[Release]:
    """Return the release of each part if every client has the same reward."""
    found = []
    for part in plan.parts:
        reports = [respond(part, [[reward]], noise) for _ in range(part.cohort)]
        found.append(analyze(part, shuffle(part, reports, noise), noise))
    return found


@pytest.mark.parametrize(("dimension", "length"), [(1, 16), (2, 16), (3, 18), (20, 104), (50, 289)])
def test_the_first_phase_is_as_long_as_supports_are_large(dimension: int, length: int) -> None:
    # ⌈4d log log d + 16⌉ with log log d at least 0
    schedule = Schedule.one_client_per_round(dimension)
    assert [schedule.length(phase) for phase in (1, 2, 3)] == [length, 2 * length, 4 * length]


@pytest.mark.parametrize(("trust", "preset"), CASES)
def test_a_run_through_the_messages_ends_and_can_be_replayed(trust: str, preset: str) -> None:
    study = _study(trust, preset)
    states, plans, releases = run(study)
    assert sum(plan.rounds for plan in plans) == states[-1].rounds_played == 300
    for plan in plans:
        assert plan.mechanism is None
        if plan.asks:  # one client per round
            assert plan.cohort == plan.rounds
            assert tuple(own.cohort for own in plan.per_action) == plan.plays
            assert [part.support for part in plan.parts] == [(action,) for action in plan.support]
    asked = sum(plan.cohort for plan in plans)
    assert states[-1].clients_asked == asked <= 300
    stored = [decode(encode(release), Release) for release in releases]
    assert stored == releases
    again = replay(study, stored)
    assert again.history == states[len(releases)].history
    assert again.active == states[len(releases)].active
    with pytest.raises(PlanMismatch, match="belongs to plan"):
        replay(replace(study, bound=2.0), stored)


@pytest.mark.parametrize(("trust", "preset"), CASES)
def test_plans_and_their_parts_survive_json(trust: str, preset: str) -> None:
    plan = ask(_study(trust, preset).begin())
    back = decode(encode(plan), Plan)
    assert back == plan
    assert back.digest == plan.digest
    assert [part.digest for part in back.parts] == [part.digest for part in plan.parts]
    assert len({part.digest for part in plan.parts} | {plan.digest}) == len(plan.support) + 1
    evidence = tell(_study(trust, preset).begin(), plan, gather(plan, _answers(plan, _noise()))).history[0]
    assert decode(encode(evidence), PhaseEvidence) == evidence


def test_sums_as_the_paper_has_them() -> None:
    """θ̃ = V⁻¹G with V = Σ T(x)xx' and G = Σ x·(sum of the rewards of x)."""
    study = _study("none", "paper")
    plan, rng = ask(study.begin()), np.random.default_rng(3)
    rewards = [rng.uniform(-0.9, 0.9, size=plays) for plays in plan.plays]
    releases = []
    for part, seen in zip(plan.parts, rewards, strict=True):
        reports = [respond(part, [[float(reward)]], _noise()) for reward in seen]
        releases.append(analyze(part, shuffle(part, reports, _noise()), _noise()))
    state = tell(study.begin(), plan, gather(plan, releases))
    rows = study.actions.matrix[list(plan.support)]
    gram = sum(len(seen) * np.outer(row, row) for row, seen in zip(rows, rewards, strict=True))
    total = sum(row * seen.sum() for row, seen in zip(rows, rewards, strict=True))
    np.testing.assert_allclose(state.estimate, np.linalg.solve(gram, total), atol=1e-12)


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_real_noise_makes_a_release_that_is_not_stamped_as_simulated(trust: str) -> None:
    plan = ask(_study(trust).begin())
    release = gather(plan, _answers(plan, SecureNoise()))
    assert not release.simulated
    assert release.counts == plan.plays
    mixed = _answers(plan, SecureNoise())
    mixed[-1] = replace(mixed[-1], simulated=True)
    assert gather(plan, mixed).simulated


def test_a_client_answers_for_its_own_action_only() -> None:
    plan = ask(_study("shuffle").begin())
    first, second = plan.parts[:2]
    with pytest.raises(ProtocolError, match="one of the plan's parts"):
        respond_with_averages(plan, [0.0] * len(plan.support), _noise())
    with pytest.raises(ProtocolError, match="one for each play"):
        respond(first, [[0.0, 0.0]], _noise())
    with pytest.raises(PlanMismatch, match="another plan"):
        shuffle(first, [respond(second, [[0.0]], _noise())], _noise())
    with pytest.raises(TooFewReports):
        shuffle(first, [], _noise())
    releases = _answers(plan, _noise())
    with pytest.raises(PlanMismatch, match="parts of phase 1"):
        gather(plan, releases[::-1])
    with pytest.raises(PlanMismatch, match="parts of phase 1"):
        gather(plan, releases[1:])


@pytest.mark.parametrize(("trust", "preset"), CASES)
def test_a_release_simulated_at_once_is_that_of_its_parts(trust: str, preset: str) -> None:
    study = _study(trust, preset, schedule=Schedule(first_length=200), horizon=1000)
    state, rng = study.begin(), np.random.default_rng(5)
    for seed in range(2):  # the second phase may have offsets
        plan, noise = ask(state), _noise(seed)
        reported = [rng.normal(size=(own.cohort, 1)) for own in plan.per_action]
        groups = [[own[:2], own[2:]] for own in reported]
        releases = [
            simulate_groups(part, [blocks], noise)[0] for part, blocks in zip(plan.parts, groups, strict=True)
        ]
        release = simulate_groups(plan, groups, _noise(seed))[0]
        assert release == gather(plan, releases)
        state = tell(state, plan, release)
    with pytest.raises(ProtocolError, match="expected simulated noise"):
        simulate_groups(plan, groups, SecureNoise())


def test_nothing_is_simulated_where_nobody_is_asked() -> None:
    plan = replace(ask(small_study("central").begin()), mechanism=None)
    with pytest.raises(ProtocolError, match="phase 1 only plays: it asks no clients"):
        simulate_groups(plan, [], _noise())


def test_the_mechanism_of_a_part_is_not_that_of_the_plan() -> None:
    plan = ask(_study("central").begin())
    with pytest.raises(ProtocolError, match="phase 1 asks each client for one action"):
        _ = plan.asked_mechanism
    assert [part.asked_mechanism for part in plan.parts] == list(plan.per_action)


def test_equal_plans_have_equal_hashes() -> None:
    plan = ask(_study("shuffle").begin())
    back = decode(encode(plan), Plan)
    assert back is not plan
    assert hash(back) == hash(plan)
    assert len({plan, back, replace(plan, phase=2)}) == 2
    own: Any = plan.per_action[0]
    other = replace(plan, per_action=(replace(own, bound=own.bound / 2), *plan.per_action[1:]))
    assert len({plan, other}) == 2  # equal hashes, but different plans


def test_who_answers_for_all_is_gathered_as_one() -> None:
    plan = ask(small_study("central").begin())
    assert plan.parts == (plan,)
    release = simulate_release(plan, np.zeros((plan.cohort, len(plan.support))), _noise())
    assert gather(plan, [release]) is release


def test_clients_that_drop_out_count_for_their_action() -> None:
    study = _study("central", schedule=Schedule(first_length=200), horizon=1000)
    plan = ask(study.begin())
    releases = _answers(plan, _noise())
    part = plan.parts[0]
    few = [respond(part, [[0.5]], _noise()) for _ in range(part.cohort // 2)]
    fewer = [analyze(part, shuffle(part, few, _noise()), _noise()), *releases[1:]]
    full, short = (tell(study.begin(), plan, gather(plan, some)) for some in (releases, fewer))
    assert short.history[0].counts == (part.cohort // 2, *plan.plays[1:])
    own = np.array(plan.support[:1])
    widths = [fitted(study, state.history[0]).widths(own)[0] for state in (full, short)]
    assert widths[1] > 1.1 * widths[0]
    whole = gather(plan, releases)
    too_many = replace(whole, counts=(part.cohort + 1, *plan.plays[1:]), reports=whole.reports + 1)
    for wrong in (replace(whole, counts=()), too_many):
        with pytest.raises(PlanMismatch, match="cannot have a release"):
            tell(study.begin(), plan, wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": calibrate(PrivacyRequest(), coordinates=2, cohort=3, bound=1)},
        {"plays": (3, 9)},
        {"per_action": calibrate_per_action(PrivacyRequest(), cohorts=[3], bounds=[1])},
        {"per_action": (calibrate(PrivacyRequest(), coordinates=2, cohort=3, bound=1),) * 2},
    ],
)
def test_plans_that_contradict_themselves_are_refused(changes: dict[str, Any]) -> None:
    mechanisms = calibrate_per_action(PrivacyRequest(), cohorts=[3, 3], bounds=[1, 1])
    plan = Plan(
        study="s", phase=1, support=(4, 5), plays=(3, 3), rank=2, mechanism=None, per_action=mechanisms
    )
    assert plan.cohort == 6
    with pytest.raises(InvalidValue):
        replace(plan, **changes)


@pytest.mark.parametrize("counts", [(3, 4), (6,)])
def test_counts_that_do_not_add_up_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(InvalidValue, match="counts"):
        Release(plan="s", means=(0.0, 0.0), reports=6, simulated=True, counts=counts)


def test_the_population_must_suffice() -> None:
    with pytest.raises(NotEnoughClients):
        _study(population=299)
    _study(population=300)
    study = _study(population=100, when_clients_run_out="stop")
    states, plans, _ = run(study)
    assert states[-1].clients_asked <= 100 < states[-1].rounds_played
    assert (len(plans[-1].support), plans[-1].asks) == (1, False)


def test_an_impossible_study_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidValue, match="assignment"):
        _study(assignment="two")
    request = PrivacyRequest(trust="shuffle", preset="paper", epsilon=20, delta=0.1)
    _study(privacy=request)  # the theorem for scalars holds up to 30, the one for vectors only to 15
    with pytest.raises(OutsideTheorem, match="< 30"):
        _study(privacy=replace(request, epsilon=30))
    with pytest.raises(InvalidValue, match="assignment: got one_per_round, expected everyone"):
        predict(_study())


# Table 5 at d = 20, h = 1000, s = 40 actions of 25 clients each, B = 1, (ε, δ) = (10, .25), β = 10⁻⁹, σ = 0:
# (√(40/1000) + σ_n)·√(2 ln 10⁹), computed with forty digits.
@pytest.mark.parametrize(
    ("trust", "delta", "width"),
    [
        ("none", 0.25, 1.28757961577360834),
        # σ_nc = 2√(2 ln 5)/10 = .358824515…, σ_n = 2·20·σ_nc·√40/1000
        ("central", 0.25, 1.87198766791192641),
        # σ_n = 2·20·σ_nl·√(2·40/1000)
        ("local", 0.25, 27.4231022393640188),
        # g = 10, b = 60: σ_ns = (2/10)·√(25·61)/2 = 3.90512…, σ_n = 2·20·σ_ns·√40/1000
        ("shuffle", 0.25, 7.64775374182702911),
        # The paper prints no width: .2·(40/1000)·(2√(40·ln 10⁹) + ln 10⁹), and with noise of 1000 clients
        ("central", 0.0, 1.91402423003923543),
        ("local", 0.0, 1.28757961577360834 + 0.008 * (2 * 143.955777365642398 + 20.7232658369464)),
    ],
)
def test_the_widths_of_table_5(trust: str, delta: float, width: float) -> None:
    actions = Actions.generate("sphere", count=40, dimension=20, rng=0)
    request = PrivacyRequest(trust=trust, epsilon=10, delta=delta, preset="paper")
    study = Study(
        actions=actions, horizon=25_000_000, heterogeneity=0, privacy=request, assignment="one_per_round",
        schedule=Schedule(first_length=1000),
    )  # fmt: skip
    assert study.bound_failure == 1e-9
    plan = Plan(
        study="s", phase=1, support=tuple(range(40)), plays=(25,) * 40, rank=20, mechanism=None,
        per_action=calibrate_per_action(request, cohorts=[25] * 40, bounds=[1.0] * 40),
    )  # fmt: skip
    evidence = PhaseEvidence(plan=plan, reports=1000, counts=(25,) * 40)
    assert PerActionErrors(study, evidence).paper_width() == pytest.approx(width, rel=1e-9)


def _evidence(study: Study, plays: tuple[int, ...], bound: float = 100.0) -> PhaseEvidence:
    support = tuple(range(len(plays)))
    mechanisms = calibrate_per_action(study.privacy, cohorts=plays, bounds=[bound] * len(plays))
    plan = Plan(
        study="s", phase=1, support=support, plays=plays, rank=3, mechanism=None, per_action=mechanisms
    )  # fmt: skip
    return PhaseEvidence(plan=plan, reports=sum(plays), counts=plays)


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_the_tight_width_is_the_formula_of_the_covariance(trust: str) -> None:
    study = _normal(trust, heterogeneity=0.5)
    evidence = _evidence(study, (40, 60, 30, 50, 20))
    fit = fitted(study, evidence)
    rows, counts = study.actions.matrix[:5], np.array(evidence.counts)
    noise = np.array(
        [own.error_deviation(n) for own, n in zip(evidence.plan.per_action, counts, strict=True)]
    )
    variances = (1 + 0.25 * (rows**2).sum(axis=1)) / counts + noise**2
    precision = rows.T @ (rows / variances[:, None])
    np.testing.assert_allclose(fit.precision, precision, rtol=1e-9)
    directions = np.random.default_rng(0).normal(size=(9, 3))
    spread = np.einsum("ij,ij->i", directions, np.linalg.solve(precision, directions.T).T)
    np.testing.assert_allclose(
        fit.target_widths(directions), np.sqrt(2 * spread * np.log(1 / study.bound_failure)), rtol=1e-9
    )


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_tight_widths_cover_and_are_not_loose(trust: str) -> None:
    """At β = .05 a normal error exceeds its width on one side with probability Φ(−√(2 ln 20)) = .0072.

    Each of the two checks has a false-alarm rate below 10⁻⁶.
    """
    study = _normal(trust, heterogeneity=0.5)
    evidence = _evidence(study, (40, 60, 30, 50, 20))
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    theta, direction = np.array([0.3, -0.2, 0.1]), study.actions.matrix[7]
    scale = math.sqrt(math.log(20) / math.log(1 / study.bound_failure))  # widths at β = .05
    width = float(fit.target_widths(direction[None])[0]) * scale
    rng, trials = np.random.default_rng(5), 12_000
    means = np.empty((trials, 5))
    for column, own in enumerate(evidence.plan.per_action):
        row = study.actions.matrix[column]
        spread = math.sqrt(1 + 0.25 * float(row @ row))  # reward noise and client deviation
        rewards = row @ theta + spread * rng.standard_normal((own.cohort, trials))
        many: Any = replace(own, coordinates=2_000)  # type: ignore[type-var]  # coordinates are independent
        for start in range(0, trials, 2_000):
            part = slice(start, start + 2_000)
            means[part, column] = many.simulate(rewards[:, part], SimulatedNoise(rng))
    misses = int(((means @ fit.map.T - theta) @ direction > width).sum())
    assert binomtest(misses, trials, 0.0072).pvalue > 1e-6
    assert binomtest(misses, trials, 0.0025).pvalue < 1e-6


def test_what_clipping_pulls_is_covered() -> None:
    """With cuts of tail p·exp(−t/c) at z = 2, the pull exceeds its bound with probability at most β = .05."""
    study = _study("central", heterogeneity=0.0)
    plays = (40, 60, 30, 50, 20)
    evidence = replace(_evidence(study, plays), clipping_scales=(0.5,) * 5)  # c = √v/z with z = 2
    coefficients = np.random.default_rng(1).normal(size=(1, 5))
    bound = PerActionErrors(study, evidence).pull(coefficients, 0.05)[0]
    rng, trials = np.random.default_rng(2), 20_000
    pulls = np.zeros(trials)
    for column, clients in enumerate(plays):
        # The worst case: all cuts have the same sign, so none cancel.
        cut = rng.random((trials, clients)) < 2 * math.exp(-2)
        pulls += abs(coefficients[0, column]) * (cut * rng.exponential(0.5, (trials, clients))).mean(axis=1)
    assert binomtest(int((pulls > bound).sum()), trials, 0.05, alternative="greater").pvalue > 1e-6
    assert binomtest(int((1.5 * pulls > bound).sum()), trials, 0.05, alternative="greater").pvalue < 1e-6


def test_where_rewards_are_clipped() -> None:
    study = _study("central", bounded_rewards=True)
    rows, cohorts = study.actions.matrix[:4], np.array([4, 100, 2500, 10**6])
    kept = clipping(study, rows, cohorts, None)
    assert kept.bounds.tolist() == [1.0] * 4
    assert kept.scales.tolist() == [0.0] * 4
    free = clipping(replace(study, bounded_rewards=False), rows, cohorts, None)
    deviation = math.sqrt(1 + 0.1**2)
    # a share p = 2·exp(−z²/2) = .04/√n of the rewards lies outside
    margins = np.sqrt(2 * np.log(2 * np.sqrt(cohorts) / 0.04))
    np.testing.assert_allclose(free.bounds, 1 + margins * deviation)
    np.testing.assert_allclose(free.scales, deviation / margins)
    closer = clipping(replace(study, bounded_rewards=False), rows, cohorts, np.array([0.1, 0.2, 2.0, 0.0]))
    assert closer.recentred.tolist() == [True, True, False, True]
    np.testing.assert_allclose(closer.bounds, np.array([0.1, 0.2, 1.0, 0.0]) + margins * deviation)
    nobody = clipping(_study("none"), rows, cohorts, None)
    assert nobody.bounds.min() > 40
    assert not nobody.scales.any()


def test_clients_report_what_the_last_estimate_leaves_open() -> None:
    """Unbounded rewards are recentred, each action with its own radius, and offsets cancel in the means."""
    study = _study("central", bounded_rewards=False, horizon=10**7, schedule=Schedule(first_length=10**6))
    plan = ask(study.begin())
    assert plan.offsets == ()
    release = Release(
        plan=plan.digest, means=tuple((study.actions.matrix[list(plan.support)] @ [0.3, 0.2, 0.1]).tolist()),
        reports=plan.rounds, simulated=True, counts=plan.plays,
    )  # fmt: skip
    state = tell(study.begin(), plan, release)
    again = ask(state)
    rows = study.actions.matrix[list(again.support)]
    np.testing.assert_allclose(again.offsets, rows @ [0.3, 0.2, 0.1], atol=1e-6)
    assert all(own.bound < 5.5 for own in again.per_action)
    assert max(own.bound for own in again.per_action) < min(own.bound for own in plan.per_action)
    part = again.parts[0]
    reports = [respond(part, [[reward]], _noise(i)) for i, reward in enumerate([0.5, 1.5] * 500)]
    found = analyze(part, shuffle(part, reports, _noise()), _noise())
    assert found.means[0] == pytest.approx(1.0, abs=0.2)
    assert (fitted(study, state.history[0]).target_widths(rows) < 0.1).all()
