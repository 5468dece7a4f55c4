"""Shortening the list of faults of a run that fails, with a bounded number of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .faults import Case


def shrink(case: Case, fails: Callable[[Case], bool], *, runs: int = 60) -> Case:
    """Remove smaller and smaller parts of the list, as long as the run still fails without them.

    Args:
        case: A case that fails.
        fails: Returns whether a case fails.
        runs: The most calls of `fails`.
    """
    size = max(1, len(case.faults) // 2)
    while runs > 0 and case.faults:
        start, smaller = 0, False
        while start < len(case.faults) and runs > 0:
            shorter = replace(case, faults=case.faults[:start] + case.faults[start + size :])
            runs -= 1
            if fails(shorter):
                case, smaller = shorter, True
            else:
                start += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return case
