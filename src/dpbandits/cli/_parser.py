"""An argument parser with one-line errors, and the types of its values."""

from __future__ import annotations

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """argparse without the usage text before an error."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one line that names the option, the value and what is accepted."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class DefaultsInHelp(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of an option, unless its help states it already or it is None or False."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        stated = "(default" in (action.help or "")
        return action.help if stated or action.default in (None, False) else super()._get_help_string(action)


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number") from None


def whole_number(text: str) -> int:
    """A whole number, also written as 1e6 or 1_000_000."""
    try:
        return int(text)
    except ValueError:
        value = number(text)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number")
    return int(value)


def whole_number_or_unlimited(text: str) -> int | None:
    """A whole number, or the word `unlimited` for None."""
    return None if text == "unlimited" else whole_number(text)
