"""The checks of the page Health. Each check says what it found and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.service.dashboard._snapshot import Snapshot

GOOD, WARNING, BAD, UNKNOWN = "good", "warning", "bad", "unknown"
_SKEW = 5.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Card:
    """One check: its name, its level, what was found, and what to do."""

    name: str
    level: str
    found: str
    advice: str = ""


def cards(snapshot: Snapshot) -> list[Card]:
    """Return all checks."""
    found = [_steps(snapshot), _storage(snapshot), _clock(snapshot), _dropouts(snapshot), _failures(snapshot)]
    if snapshot.terms.shuffler is not None:
        found.insert(1, _shuffler(snapshot))
    return [*found, _plausible(snapshot), _fit(snapshot), _clipped()]


def _steps(snapshot: Snapshot) -> Card:
    trouble = snapshot.status.trouble
    if not trouble:
        return Card(name="Study", level=GOOD, found="The last step of the study succeeded.")
    return Card(
        name="Study",
        level=BAD,
        found=f"The last step failed: {trouble}.",
        advice="The step is repeated until it succeeds. Nothing is released meanwhile. See the log.",
    )


def _shuffler(snapshot: Snapshot) -> Card:
    if "shuffler" not in snapshot.status.trouble:
        return Card(name="Shuffler", level=GOOD, found="The shuffler answered when it was last needed.")
    return Card(
        name="Shuffler",
        level=BAD,
        found=f"{snapshot.status.trouble.capitalize()}.",
        advice="Check that the shuffler runs and that its certificate and token are those of the study file.",
    )


def _storage(snapshot: Snapshot) -> Card:
    if snapshot.status.trouble.startswith("storage"):
        advice = "Check the disk space, the permissions and the database server."
        return Card(name="Store", level=BAD, found="The store cannot be written.", advice=advice)
    return Card(
        name="Store", level=GOOD, found="The store was read for this page, and the last write succeeded."
    )


def _clock(snapshot: Snapshot) -> Card:
    skew = snapshot.clock_skew
    if abs(skew) <= _SKEW:
        return Card(
            name="Clock", level=GOOD, found=f"The clocks of store and machine differ by {abs(skew):.1f} s."
        )
    advice = "Deadlines follow the store's clock. Synchronise both clocks, for example with chrony."
    return Card(name="Clock", level=WARNING, found=f"The clocks differ by {abs(skew):.0f} s.", advice=advice)


def _dropouts(snapshot: Snapshot) -> Card:
    """Compare the share of clients that did not report with the share that may be missing."""
    released = [one for one in snapshot.progress if one.cohort]
    if not released:
        return Card(name="Dropout", level=UNKNOWN, found="No phase has been released yet.")
    asked = {one.phase: one.joined for one in snapshot.attempts if one.state == "released"}
    joined = sum(asked.get(one.phase, one.cohort) for one in released)
    silent = 1 - sum(one.reports for one in released) / max(joined, 1)
    allowed = 1 - snapshot.study.privacy.minimum_share
    found = f"{silent:.1%} of the clients that joined did not report; {allowed:.0%} may be missing."
    if silent <= allowed / 2 or silent == 0:
        return Card(name="Dropout", level=GOOD, found=found)
    advice = "Give clients more time (report_seconds), or lower minimum_share in the next study."
    return Card(name="Dropout", level=WARNING, found=found, advice=advice)


def _failures(snapshot: Snapshot) -> Card:
    failed = snapshot.status.failed_attempts
    if not failed:
        return Card(name="Attempts", level=GOOD, found="No attempt has failed.")
    found = f"{failed:,} attempts had too few reports and were repeated with other clients."
    advice = "Each failure uses up clients. Give them more time, or find out why they do not report."
    return Card(name="Attempts", level=WARNING, found=found, advice=advice)


def _plausible(snapshot: Snapshot) -> Card:
    results = snapshot.analysis.results
    if results is None or not results.phases:
        return Card(name="Releases", level=UNKNOWN, found="No phase has been released yet.")
    odd = [one.phase for one in results.phases if not one.plausible]
    if not odd:
        return Card(
            name="Releases", level=GOOD, found="All released means are in the range of honest clients."
        )
    found = (
        f"The means of phase {', '.join(map(str, odd))} are outside the range that honest clients can cause."
    )
    advice = "A client may have lied. See docs/privacy.md, When a party lies."
    return Card(name="Releases", level=BAD, found=found, advice=advice)


def _fit(snapshot: Snapshot) -> Card:
    answer = snapshot.analysis.answer
    advice = "Add squares, interactions or features in the next study. The intervals need not hold."
    if answer is None:
        return Card(name="Model", level=UNKNOWN, found="No phase has been released yet.")
    if answer.fit is not None and (answer.consistent or not answer.fit.explained):
        level, words = GOOD if answer.fit.explained else BAD, str(answer.fit)
        return Card(
            name="Model",
            level=level,
            found=f"The fit test: {words}.",
            advice="" if level == GOOD else advice,
        )
    released = [one for one in snapshot.progress if one.cohort]
    if len(released) == 1 or len(snapshot.study.schedule.cohorts or ()) == 1:
        return Card(name="Model", level=UNKNOWN, found="One phase alone cannot show whether the model fits.")
    if answer.consistent:
        return Card(name="Model", level=GOOD, found="The phases agree with each other.")
    found = "The phases contradict each other: the mean reward is probably not linear in the features."
    return Card(name="Model", level=BAD, found=found, advice=advice)


def _clipped() -> Card:
    found = "Clients clip their rewards before they report. Nobody else can know how often."
    return Card(name="Clipping", level=UNKNOWN, found=found)
