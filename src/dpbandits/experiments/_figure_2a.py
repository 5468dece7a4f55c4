"""Figure 2a: final regret against ε, in the three trust models."""

from __future__ import annotations

from itertools import pairwise

from dpbandits._arrays import FloatArray
from dpbandits.experiments._curves import moments, regret_cells
from dpbandits.experiments._experiment import Experiment, Results, Scale, Work
from dpbandits.experiments._findings import Cell, Check, Curve, Findings, Panel, Table
from dpbandits.experiments._models import (
    CLOSE,
    COLOURS,
    NAMES,
    NO_ELIMINATION,
    PRESETS,
    PRIVATE,
    dashes,
    in_trust,
    shown_delta,
    survived,
    true_delta,
    without_privacy,
)
from dpbandits.experiments._statistics import all_hold, below, paired_difference, regrets
from dpbandits.simulation import Simulated

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
DELTA = 0.25
# Neighbours on the grid of ε differ by a few percent, which 20 runs cannot distinguish. So the order of
# CDP-DPE and SDP-DPE is judged on more runs.
ORDER_RUNS = 1000

Samples = list[FloatArray]


def private(preset: str, trust: str, epsilon: float, runs: int) -> Work:
    """Return one point of the figure."""
    setting = in_trust(PRESETS[preset], trust, epsilon=epsilon, delta=DELTA)
    return Work(label=f"{preset} {NAMES[trust]} ε={epsilon:g}", job=Simulated(setting=setting), runs=runs)


def works(scale: Scale) -> list[Work]:
    """Return every point, with more runs of the two models that are close."""
    points = [
        private(preset, trust, epsilon, order_runs(preset, trust, scale))
        for preset in PRESETS
        for trust in PRIVATE
        for epsilon in EPSILONS
    ]
    return [*(without_privacy(preset, scale.runs) for preset in PRESETS), *points]


def order_runs(preset: str, trust: str, scale: Scale) -> int:
    """Return how many runs of a point judge orders. The figure shows the first `scale.runs` of them."""
    close = preset == "tight" and trust != "local" and scale.judged
    return max(scale.runs, ORDER_RUNS) if close else scale.runs


def examine(results: Results, scale: Scale) -> Findings:
    """Return the figure, its numbers, and checks of the orders that the paper states."""
    rows = [row for preset in PRESETS for row in _rows(results, scale, preset)]
    columns = ("preset", "model", "ε", "true δ", "regret", "standard deviation", "best action survived")
    table = Table(name="regret", title="Final regret", columns=columns, rows=tuple(rows))
    panels = tuple(_panel(results, scale, preset) for preset in PRESETS)
    checks = [check for preset in PRESETS for check in _checks(results, scale, preset)]
    return Findings(tables=(table, _order_table(results, scale)), panels=panels, checks=tuple(checks))


def _rows(results: Results, scale: Scale, preset: str) -> list[tuple[Cell, ...]]:
    plain = results.of(without_privacy(preset, scale.runs))
    rows: list[tuple[Cell, ...]] = [(preset, "DPE", None, None, *regret_cells(plain), survived(plain))]
    for trust in PRIVATE:
        for epsilon in EPSILONS:
            runs = results.of(private(preset, trust, epsilon, scale.runs))
            cells = (*regret_cells(runs), survived(runs))
            rows.append((preset, NAMES[trust], epsilon, true_delta(runs), *cells))
    return rows


def _panel(results: Results, scale: Scale, preset: str) -> Panel:
    plain = results.of(without_privacy(preset, scale.runs))
    curves = [moments("DPE, no privacy", EPSILONS, [regrets(plain)] * len(EPSILONS), dashes=":")]
    curves += [_curve(results, scale, preset, trust) for trust in PRIVATE]
    return Panel(
        title=f"{preset}, requested δ = {DELTA:g}, {scale.runs} runs",
        x_label="privacy budget ε",
        y_label="regret after 10⁶ rounds",
        y_scale="log",
        curves=tuple(curves),
    )


def _curve(results: Results, scale: Scale, preset: str, trust: str) -> Curve:
    points = [results.of(private(preset, trust, epsilon, scale.runs)) for epsilon in EPSILONS]
    deltas = [true_delta(runs) or 0.0 for runs in points]
    label = f"{NAMES[trust]}, true δ {shown_delta(*deltas)}"
    values = [regrets(runs) for runs in points]
    return moments(label, EPSILONS, values, colour=COLOURS[trust], dashes=dashes(trust))


def _samples(results: Results, scale: Scale, preset: str, trust: str) -> Samples:
    """Return the regrets at each ε, of all runs that judge orders."""
    runs = order_runs(preset, trust, scale)
    return [regrets(results.of(private(preset, trust, epsilon, runs))) for epsilon in EPSILONS]


def _checks(results: Results, scale: Scale, preset: str) -> list[Check]:
    central, shuffle, local = (_samples(results, scale, preset, trust) for trust in PRIVATE)
    plain = regrets(results.of(without_privacy(preset, scale.runs))).mean()
    why = NO_ELIMINATION if preset == "paper" else ""
    checks = [
        _order("CDP-DPE", central, "SDP-DPE", shuffle, scale, preset, why),
        _order("SDP-DPE", [values[: scale.runs] for values in shuffle], "LDP-DPE", local, scale, preset, why),
    ]
    for trust, samples in zip(PRIVATE, (central, shuffle, local), strict=True):
        shown = ", ".join(f"{values.mean():,.0f}" for values in samples)
        statement = f"the regret of {NAMES[trust]} falls as ε grows"
        falls = all_hold([below(after, before) for before, after in pairwise(samples)])
        checks.append(scale.check(statement, falls, f"means {shown}", why=why, scope=preset))
    ratios = [samples[-1][: scale.runs].mean() / plain for samples in (central, shuffle)]
    found = f"CDP-DPE {ratios[0]:.2f} ×, SDP-DPE {ratios[1]:.2f} × DPE"
    statement = f"at ε = {EPSILONS[-1]:g} CDP-DPE and SDP-DPE are close to DPE (within {CLOSE:g} ×)"
    checks.append(scale.check(statement, max(ratios) <= CLOSE, found, why=why, scope=preset))
    return checks


def _order(
    low: str, lower: Samples, high: str, higher: Samples, scale: Scale, preset: str, why: str
) -> Check:
    pairs = list(zip(EPSILONS, lower, higher, strict=True))
    answers = [below(one, other) for _, one, other in pairs]
    shown = "; ".join(f"ε = {epsilon:g}: {_difference(one, other)}" for epsilon, one, other in pairs)
    found = f"mean paired difference ± standard error over {len(lower[0]):,} instances: {shown}"
    statement = f"{low} has less regret than {high} at every ε"
    return scale.check(statement, all_hold(answers), found, why=why, scope=preset)


def _difference(lower: FloatArray, higher: FloatArray) -> str:
    mean, error = paired_difference(lower, higher)
    return f"{mean:,.0f} ± {error:,.0f}"


def _order_table(results: Results, scale: Scale) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for preset in PRESETS:
        central, shuffle = (_samples(results, scale, preset, trust) for trust in PRIVATE[:2])
        for epsilon, one, other in zip(EPSILONS, central, shuffle, strict=True):
            mean, error = paired_difference(one, other)
            rows.append((preset, epsilon, len(one), float(one.mean()), float(other.mean()), mean, error))
    columns = ("preset", "ε", "instances", "CDP-DPE", "SDP-DPE", "SDP − CDP", "standard error")
    title = "CDP-DPE and SDP-DPE on the same instances"
    return Table(name="order", title=title, columns=columns, rows=tuple(rows))


EXPERIMENT = Experiment(
    name="figure-2a",
    title="Figure 2a: final regret against ε",
    statement=(
        "Regret falls as the privacy budget ε grows, in every trust model. At the same ε the central "
        "model has the least regret, the local model the most, and the shuffle model comes close to the "
        "central one."
    ),
    choices=(
        f"ε = {', '.join(f'{epsilon:g}' for epsilon in EPSILONS)}; the paper does not give its grid.",
        f"δ = {DELTA:g}, which the paper's text states for Figure 2b; it states none for this figure.",
        "B = 1, θ* on the unit sphere. The paper does not state B, and its θ* may have a norm above one.",
        "All models see the same instances, so orders are judged by paired differences: an order counts "
        "if the difference is more than two standard errors from zero.",
        f"Orders of CDP-DPE and SDP-DPE in `tight` are judged on {ORDER_RUNS} instances in the full set, "
        "because 20 cannot distinguish neighbours on the grid; the figure shows the first 20.",
        "SDP-DPE shuffles bits, as in the paper. By default, `tight` sums integers in the shuffle model, "
        "which gives the regret of the central model.",
    ),
    works=works,
    examine=examine,
)
