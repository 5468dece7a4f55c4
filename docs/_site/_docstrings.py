"""Docstrings: sections such as Args and Raises, and their Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass, field

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example")
_HEAD = re.compile(rf"({'|'.join(SECTIONS)}):")
_ITEM = re.compile(r"\*{0,2}([\w.]+): ?(.*)")


@dataclass
class Docstring:
    """A docstring in parts.

    Attributes:
        text: The text before and between the sections.
        sections: The text of each section, without its indentation.
    """

    text: str
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.split("\n\n", 1)[0].split())

    def items(self, section: str) -> dict[str, str]:
        """Return the entries of a section such as Args: the text of each name."""
        found, name = dict[str, list[str]](), ""
        for line in self.sections.get(section, "").splitlines():
            head = _ITEM.fullmatch(line)
            if head and not line.startswith(" "):
                name = head[1]
                found[name] = [head[2]]
            elif name:
                found[name].append(line)
        return {name: "\n".join([lines[0], _dedented(lines[1:])]).strip() for name, lines in found.items()}


def parsed(docstring: str | None) -> Docstring:
    """Return a docstring in parts.

    Args:
        docstring: The docstring as it is in the source, or None.
    """
    text, sections, name = list[str](), dict[str, list[str]](), ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        head = _HEAD.fullmatch(line)
        if head:
            name = head[1]
            sections[name] = []
        elif name and (not line or line.startswith(" ")):
            sections[name].append(line)
        else:
            name = ""
            text.append(line)
    inner = {name: _dedented(lines).strip("\n") for name, lines in sections.items()}
    return Docstring("\n".join(text).strip(), inner)


def markdown(docstring: Docstring) -> str:
    """Return a docstring as Markdown, without its summary line repeated.

    Args:
        docstring: The docstring in parts.
    """
    parts = [_spaced(docstring.text)]
    for section in SECTIONS:
        if section not in docstring.sections:
            continue
        if section == "Example":
            parts.append(f"**Example**\n\n```pycon\n{docstring.sections[section]}\n```")
        elif section in ("Returns", "Yields"):
            parts.append(f"**{section}**\n\n{_spaced(docstring.sections[section])}")
        else:
            parts.append(f"**{section}**\n\n{_listed(docstring.items(section))}")
    return "\n\n".join(part for part in parts if part)


def _listed(items: dict[str, str]) -> str:
    return "\n".join(
        f"-   `{name}`: {textwrap.indent(_spaced(text), '    ').lstrip()}" for name, text in items.items()
    )


def _spaced(text: str) -> str:
    """Put an empty line before each list and each indented block, as Markdown wants it."""
    lines = list[str]()
    for line in text.splitlines():
        begins = line.startswith(("- ", "    "))
        if begins and lines and lines[-1] and not lines[-1].startswith(("- ", " ")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _dedented(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines))
