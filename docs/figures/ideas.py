"""A round, a phase, a cohort and a client, drawn from one small study."""

from __future__ import annotations

import numpy as np

import dpbandits as dp
from docs.figures._saving import save
from dpbandits._plots import ACCENT, INK, LINE, SECOND, SOFT, TRUST_COLOURS, new_figure
from dpbandits.protocol import fitted, leader, play_order

LABELS = [f"option {letter}" for letter in "ABCDEFGHIJKL"]
COHORTS = (120, 180, 300)
PLAYED = "#56B4E9"


def study(trust: str = "central") -> tuple[dp.Study, dp.Instance]:
    """Return the study of the pictures, and the truth that it does not see."""
    angles = np.linspace(0.1, 1.9, len(LABELS))
    actions = dp.Actions(np.column_stack([np.cos(angles), np.sin(angles)]) * 0.99)
    privacy = dp.PrivacyRequest(trust=trust, epsilon=1, delta=1e-6)
    schedule = dp.Schedule(cohorts=COHORTS, first_length=48, growth=4.0)
    made = dp.Study(actions=actions, horizon=10_000, schedule=schedule, privacy=privacy, confidence=0.95)
    return made, dp.Instance(actions, [0.55, 0.75])


def played() -> list[dp.State]:
    """Return the state after each phase."""
    made, truth = study()
    rng = np.random.default_rng(4)
    noise, state, states = dp.SimulatedNoise(rng), made.begin(), list[dp.State]()
    for _ in COHORTS:
        plan = dp.ask(state)
        means = truth.mean_rewards[list(plan.support)]
        people = means + rng.normal(0, 0.15, (plan.cohort, len(means)))
        reports = [dp.respond_with_averages(plan, one.tolist(), noise) for one in people]
        release = dp.analyze(plan, dp.shuffle(plan, reports, noise), noise)
        state = dp.tell(state, plan, release)
        states.append(state)
    return states


def draw_round() -> None:
    """Draw which option is played in which round of the first phase."""
    made, _ = study()
    plan = dp.ask(made.begin())
    rounds = [action for action, plays in play_order(plan, attempt=1) for _ in range(plays)]
    figure, axes = new_figure(7.0, 3.2)
    for number, action in enumerate(rounds):
        axes.barh(action, 0.85, left=number + 0.5, height=0.8, color=ACCENT)
    axes.set_yticks(range(len(LABELS)), LABELS, fontsize=8)
    axes.set(xlabel="round of the first phase", xlim=(0.5, len(rounds) + 0.5), ylim=(11.6, -0.6))
    axes.grid(axis="x", visible=False)
    save(figure, "ideas-round.png")


def draw_phases() -> None:
    """Draw the estimate and the width of each option after each phase."""
    figure, panels = new_figure(8.4, 3.6, columns=len(COHORTS))
    before = np.arange(len(LABELS))
    for panel, state in zip(panels, played(), strict=True):
        made, fit = state.study, fitted(state.study, state.history[-1].unfitted)
        scores, best = made.actions.matrix @ fit.estimate, leader(state)
        for action in before:
            own = np.array([action])
            width = 0.0 if action == best else float(fit.widths(own, towards=best)[0])
            kept = action in state.active_actions
            colour = ACCENT if action == best else SOFT if kept else LINE
            panel.plot(
                [scores[action] - width, scores[action] + width], [action] * 2, color=colour, linewidth=2.5
            )
            panel.plot([scores[action]], [action], "o" if kept else "x", color=colour if kept else SECOND)
        left = len(state.active_actions)
        panel.set_title(f"after phase {state.phase - 1}: {left} left", fontsize=10, loc="left", color=INK)
        panel.set(ylim=(11.6, -0.6), xlabel="estimated mean reward")
        panel.set_yticks(range(len(LABELS)), LABELS if panel is panels[0] else [""] * len(LABELS), fontsize=8)
        before = state.active_actions
    save(figure, "ideas-phase.png")


def draw_cohorts() -> None:
    """Draw each client as a dot, in the column of its cohort."""
    figure, axes = new_figure(7.0, 2.8)
    across = 0.0
    for phase, (size, colour) in enumerate(zip(COHORTS, (ACCENT, SECOND, "#6a3fa0"), strict=True), start=1):
        places = np.arange(size)
        axes.scatter(across + places // 12, places % 12, s=14, color=colour)
        middle = across + (size // 12 - 1) / 2
        axes.text(middle, 13.4, f"phase {phase}: {size} clients", ha="center", color=colour, fontsize=10)
        across += size // 12 + 4
    axes.set(ylim=(-1, 15), xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
    save(figure, "ideas-cohort.png")


def draw_client() -> None:
    """Draw what forty clients measure of one option, and the number in their reports in each trust model."""
    figure, axes = new_figure(7.0, 3.4)
    rng, clients = np.random.default_rng(3), 40
    names = ("measured", "central", "shuffle", "local")
    for place, trust in enumerate(names):
        made, truth = study("central" if trust == "measured" else trust)
        plan = dp.ask(made.begin())
        means = truth.mean_rewards[list(plan.support)]
        averages = means + np.random.default_rng(1).normal(0, 0.15, (clients, len(means)))
        values = averages if trust == "measured" else reported(plan, averages, rng)
        jitter = place + np.random.default_rng(2).uniform(-0.25, 0.25, clients)
        colour = SOFT if trust == "measured" else TRUST_COLOURS[trust]
        axes.scatter(jitter, values[:, 0], s=16, color=colour, alpha=0.8, linewidths=0)
    axes.set_xticks(
        range(4), ["average that\na client measured", *(f"report,\n{name}" for name in names[1:])]
    )
    axes.set(ylabel="reward of option A")
    axes.grid(axis="x", visible=False)
    save(figure, "ideas-client.png")


def reported(plan: dp.Plan, averages: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the reports of some clients in units of the reward, as the server reads each of them."""
    mechanism, noise = plan.asked_mechanism, dp.SimulatedNoise(rng)
    drawn = mechanism.randomize(plan.reported(averages), noise)
    if mechanism.trust == "local":  # a report is the index of a direction
        return np.array([mechanism._analyze(one[None], 1, noise) for one in drawn])
    return np.asarray(mechanism.unit_of_message * (drawn - mechanism.message.twice_centre / 2))


def draw() -> None:
    """Draw all four pictures."""
    draw_round()
    draw_phases()
    draw_cohorts()
    draw_client()


if __name__ == "__main__":
    draw()
