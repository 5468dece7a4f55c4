"""An argument parser with one-line errors, the types of argument values, and functions that add options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NoReturn


class OneLineParser(argparse.ArgumentParser):
    """argparse without the usage text before an error."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one line that names the option, the value and what is accepted."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class DefaultsInHelp(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the default of an option, unless the help states it or it is None, False or an empty list."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        stated, default = "(default" in (action.help or ""), action.default
        hidden = default is None or default is False or default == []  # a default of 0 is shown
        return action.help if stated or hidden else super()._get_help_string(action)


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


def add_value(
    group: Any,
    option: str,
    kind: Callable[[str], Any],
    metavar: str,
    text: str,
    default: Any = None,
    **more: Any,
) -> None:
    """Add an option whose value has a type, `kind`. `text` is its help."""
    group.add_argument(option, type=kind, metavar=metavar, help=text, default=default, **more)


def add_choice(
    group: Any, option: str, choices: Iterable[str], text: str, default: str | None = None, **more: Any
) -> None:
    """Add an option whose value is one of `choices`."""
    group.add_argument(option, choices=choices, help=text, default=default, **more)


def add_flag(group: Any, option: str, text: str) -> None:
    """Add an option without a value, which is off by default."""
    group.add_argument(option, action="store_true", help=text)
