"""`Verdict`: the result of checking a report, one line per check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpbandits.errors import DpbanditsError


class Mismatch(Exception):  # noqa: N818
    """A check failed; the text says why."""


@dataclass(frozen=True, kw_only=True)
class ReportCheck:
    """One check.

    Attributes:
        claim: What was checked, as a sentence that is true if the check passed.
        passed: Whether it passed.
        why: Why it did not pass; empty otherwise.
    """

    claim: str
    passed: bool
    why: str = ""


@dataclass
class Verdict:
    """The checks of a report, and what could not be checked.

    Attributes:
        checks: All checks so far.
        unverified: What a reader must believe, one sentence each.
    """

    checks: list[ReportCheck] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether every check passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def check(self, claim: str, work: Callable[[], object]) -> bool:
        """Run a check, which fails if it raises any error.

        A forged record may cause any error in the code that replays it. Every error is a failed check.

        Args:
            claim: What is checked, for the reader.
            work: The check.

        Returns:
            Whether the check passed.
        """
        try:
            work()
        except (Mismatch, DpbanditsError) as error:
            self.checks.append(ReportCheck(claim=claim, passed=False, why=str(error)))
            return False
        except Exception as error:
            why = f"it cannot be computed ({type(error).__name__}: {error})"
            self.checks.append(ReportCheck(claim=claim, passed=False, why=why))
            return False
        self.checks.append(ReportCheck(claim=claim, passed=True))
        return True


def require(kept: bool, otherwise: str) -> None:
    """Raise `Mismatch` with a text unless something holds."""
    if not kept:
        raise Mismatch(otherwise)
