"""The reference of the command line, from the argument parsers: one page per command."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from dpbandits.cli import COMMANDS, _parser


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path below reference/ and the text of each page."""
    yield "commands/index.md", _index()
    for command in COMMANDS:
        yield f"commands/{command}.md", page(command)


def _index() -> str:
    lines = ["# Command line", "", "Every command has `--help`, and ends with status 2 after bad input.", ""]
    lines += ["| command | purpose |", "|---|---|"]
    lines += [f"| [`{name}`]({name}.md) | {summary} |" for name, summary in COMMANDS.items()]
    return "\n".join(lines) + "\n"


def page(command: str) -> str:
    """Return the page of a command.

    Args:
        command: Its name, for example `plan`.
    """
    own = _subparsers(_parser([command]))[command]
    lines = [f"# dpbandits {command}", "", _sentence(own.description or COMMANDS[command]), ""]
    return "\n".join([*lines, *_described(own, 2)]) + "\n"


def _described(parser: argparse.ArgumentParser, level: int) -> list[str]:
    lines = ["```text", _usage(parser), "```", ""]
    for group in parser._action_groups:
        shown = [one for one in group._group_actions if _is_shown(one)]
        if not shown:
            continue
        title = (group.title or "options").replace("positional ", "").capitalize()
        lines += [f"{'#' * level} {title}", ""]
        lines += [_sentence(group.description), ""] if group.description else []
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| {_names(one, parser)} | {_help(one, parser)} |" for one in shown]
        lines.append("")
    below = _subparsers(parser)
    for name, own in below.items():
        lines += [f"{'#' * level} {parser.prog.split()[-1]} {name}", "", _summary(parser, name), ""]
        lines += _described(own, level + 1)
    return lines


def _is_shown(action: argparse.Action) -> bool:
    """Return whether an option has a row: `--help`, commands below, and files without a help have none."""
    return action.dest != "help" and bool(action.help) and not isinstance(action, argparse._SubParsersAction)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _summary(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return _sentence(choice.help)
    return ""


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=88)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _names(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = ""
    if action.nargs != 0:
        value = " " + argparse.HelpFormatter(parser.prog)._format_args(
            action, argparse.HelpFormatter(parser.prog)._get_default_metavar_for_optional(action)
        )
    return ", ".join(f"`{one}{value}`" for one in action.option_strings).replace("|", "\\|")


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return re.sub(r"(?<!\\)\|", r"\\|", _escaped(text))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _sentence(text: str | None) -> str:
    words = _escaped((text or "").strip())
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", ":")) else ".")
