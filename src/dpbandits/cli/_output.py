"""The output of a simulation: a table to read, and JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from dpbandits.privacy import Guarantee, Mechanism
from dpbandits.simulation import PhaseTrace, RunTrace, Setting
from dpbandits.world import SEMI_REAL


@dataclass(frozen=True, kw_only=True)
class Result:
    """The runs of one setting, ordered by seed, with the weakest guarantee among them and its mechanism."""

    setting: Setting
    runs: tuple[RunTrace, ...]
    guarantee: Guarantee | None
    mechanism: Mechanism | None

    @staticmethod
    def of(setting: Setting, runs: Sequence[RunTrace]) -> Result:
        """Collect the runs of a setting. The guarantee is the weakest one of the runs."""
        ordered = tuple(sorted(runs, key=lambda run: run.seed))
        worst = max(ordered, key=lambda run: 0.0 if run.guarantee is None else run.guarantee.delta)
        return Result(setting=setting, runs=ordered, guarantee=worst.guarantee, mechanism=worst.mechanism)

    def summary(self) -> dict[str, float | int | str]:
        """Means over the runs. With a single run, the standard deviation is 0."""
        regrets = np.array([run.regret for run in self.runs])
        return {
            "runs": len(self.runs),
            "regret_mean": float(regrets.mean()),
            "regret_sd": float(regrets.std(ddof=1)) if len(regrets) > 1 else 0.0,
            "cover_loss_mean": float(np.mean([run.cover_loss for run in self.runs])),
            "regret_with_cover_mean": float(np.mean([run.regret_with_cover for run in self.runs])),
            "regret_per_round_mean": float(regrets.mean()) / self.setting.horizon,
            "communication_mean": float(np.mean([run.communication for run in self.runs])),
            "communication_unit": self.runs[0].unit,
            "participants_mean": float(np.mean([run.participants for run in self.runs])),
            "actions_left_mean": float(np.mean([run.actions_left for run in self.runs])),
            "best_action_survived": sum(run.best_action_survived for run in self.runs),
        }


def as_document(results: Sequence[Result], settings: dict[str, Any]) -> dict[str, Any]:
    """Every number of every run, for JSON."""
    return {
        "simulated": True,
        "semi_real": settings["data"] is not None,
        "settings": settings,
        "results": [
            {
                "trust": result.setting.privacy.trust,
                "privacy": result.setting.privacy,
                "guarantee": result.guarantee,
                "mechanism": result.mechanism,
                "runs": [_run(run) for run in result.runs],
                "summary": result.summary(),
            }
            for result in results
        ],
    }


def _run(run: RunTrace) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "regret": run.regret,
        "cover_loss": run.cover_loss,
        "regret_with_cover": run.regret_with_cover,
        "communication": {"amount": run.communication, "unit": run.unit},
        "participants": run.participants,
        "actions_left": run.actions_left,
        "best_action_survived": run.best_action_survived,
        "final_action": run.final_action,
        "final_gap": run.final_gap,
        "phases": [_phase(phase) for phase in run.phases],
    }


def _phase(phase: PhaseTrace) -> dict[str, Any]:
    """All fields except the time that the phase took, so that a seed always writes the same file."""
    own = {name: value for name, value in vars(phase).items() if name != "elapsed"}
    return {"index": phase.index, "cohort": phase.cohort, "width": phase.width, **own}


def as_table(results: Sequence[Result]) -> Table:
    """One row per setting."""
    table = Table(title=_title(results), title_justify="left", caption_justify="left")
    for heading in ("trust", "regret", "per round", "communication", "participants", "actions left"):
        table.add_column(heading, justify="left" if heading == "trust" else "right")
    table.add_column("guarantee that holds", justify="left")
    presets = {result.setting.privacy.preset for result in results}
    for result in results:
        row, privacy = result.summary(), result.setting.privacy
        table.add_row(
            privacy.trust if len(presets) == 1 else f"{privacy.trust}, {privacy.preset}",
            f"{row['regret_mean']:,.0f} ± {row['regret_sd']:,.0f}",
            f"{row['regret_per_round_mean']:.5f}",
            f"{row['communication_mean']:,.0f} {row['communication_unit']}",
            f"{row['participants_mean']:,.0f}",
            f"{row['actions_left_mean']:,.1f}",
            describe(result.guarantee, privacy.delta),
        )
    losses = [run.cover_loss for result in results for run in result.runs]
    table.caption = cover_note(max(losses, default=0.0))
    return table


def cover_note(loss: float) -> str | None:
    """A sentence about the loss of actions that cover a continuous set; None if the loss is 0."""
    if loss == 0:
        return None
    return f"The actions cover a continuous set. Regret against its best point is at most {loss:,.0f} larger."


def _title(results: Sequence[Result]) -> str:
    if not results:
        return "no run was finished"
    setting = results[0].setting
    presets = " and ".join(dict.fromkeys(result.setting.privacy.preset for result in results))
    return (
        f"{provenance(setting)}{setting.algorithm}, {presets}, {setting.horizon:,} rounds, "
        f"{len(results[0].runs)} runs: mean ± standard deviation"
    )


def provenance(setting: Setting) -> str:
    """The real data and users of a semi-real result, for titles; empty for generated problems."""
    dataset = setting.problem.dataset
    return "" if dataset is None else f"{SEMI_REAL} ({dataset.name}, {setting.problem.users} users), "


def describe(guarantee: Guarantee | None, requested: float) -> str:
    """The guarantee as text, with the requested δ if the guaranteed one is larger."""
    if guarantee is None:
        return "none"
    text = f"({guarantee.epsilon:g}, {guarantee.delta:.3g})-DP, {guarantee.neighbouring}"
    missed = guarantee.delta > requested * (1 + 1e-9)
    return f"{text} [bold red](requested: δ = {requested:g})[/]" if missed else text
