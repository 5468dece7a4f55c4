"""What a trust model means, in plain words: who sees what, and what (ε, δ) promises."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.privacy import TrustModel
from dpbandits.service.wire import SHARED_MODES


@dataclass(frozen=True, kw_only=True)
class Party:
    """A party of a study.

    Attributes:
        name: Its name.
        sees: What it sees of clients.
        noise: Whether it adds noise before it passes anything on.
        passes: What it passes on to the next party; empty for the last one.
    """

    name: str
    sees: str
    noise: bool
    passes: str


def parties(model: TrustModel, mode: str) -> tuple[Party, ...]:
    """Return who sees what, in the order in which data moves.

    Args:
        model: The trust model.
        mode: The shuffler's mode; empty without a shuffler.
    """
    split = mode in SHARED_MODES
    by_client = model.noise_by in ("client", "cohort")
    report = {"client": "noisy report", "cohort": "report with a little noise"}.get(model.noise_by, "report")
    found = [
        Party(
            name="Clients",
            sees="only their own rewards",
            noise=by_client,
            passes="two random shares" if split else report,
        )
    ]
    if model.shuffler:
        sees = "one share of each report, random by itself" if split else "each report, under a pseudonym"
        passes = "the other shares, and sums" if split else "sums of all reports"
        found.append(Party(name="Shuffler", sees=sees, noise=False, passes=passes))
    found.append(
        Party(
            name="Coordinator",
            sees=_coordinator(model, split=split),
            noise=model.noise_by == "server",
            passes="means of a cohort",
        )
    )
    found.append(Party(name="Results", sees="means of whole cohorts", noise=False, passes=""))
    return tuple(found)


def _coordinator(model: TrustModel, *, split: bool) -> str:
    if split:
        return "the other share of each report, and sums"
    if model.shuffler:
        return "only sums over a cohort"
    return {
        "client": "each report, with its client's noise",
        "server": "each report; it must be trusted",
    }.get(model.noise_by, "each report; nothing is hidden")


def promise(epsilon: float, delta: float) -> str:
    """Return what (ε, δ)-differential privacy states, in one sentence that is the definition.

    Args:
        epsilon: The ε.
        delta: The δ.
    """
    factor = math.exp(min(epsilon, 700.0))
    shown = f"{factor:.3g}" if factor < 1e6 else f"{factor:.1e}"
    more = f", plus at most {delta:.2g}" if delta else ""
    return (
        f"Whatever one client reports, every possible outcome is at most {shown} times as likely as it "
        f"would be with any other report of this client{more}."
    )


def who_is_protected_from(model: TrustModel) -> str:
    """Return whom the guarantee protects clients from.

    Args:
        model: The trust model.
    """
    if not model.private:
        return "Nothing protects single clients in this study: no noise is added."
    if model.noise_by == "server":
        return "It protects clients from everybody who sees the results. The coordinator sees every report."
    if model.shuffler:
        return (
            "It protects clients from the coordinator too, as long as the shuffler does not collude with it."
        )
    return "It protects clients from the coordinator too: each report carries its own noise."
