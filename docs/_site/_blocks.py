"""The code blocks of a page: fenced ones with their language, and indented ones.

A block that somebody can run is fenced, and its language says how: `python`, `sh`, or `console` for commands
after `$ ` with their output. A fenced `text` block whose introduction says "prints" is the output of the one
before it. Everything else that is fenced as `text`, or indented, is shown and not run: formulas, file trees.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)(```+)(\w*) *$")
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +")
_PRINTS = re.compile(r"\bprint(?:s|ed)\b")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: The page, relative to the root of the repository.
        line: The line of the page on which its text begins, counted from 1.
        language: The language of a fenced block; empty for an indented block, and for a fence without one.
        text: The text, without the indentation of the block.
        fenced: Whether it is fenced.
        introduction: The last paragraph before it.
    """

    page: str
    line: int
    language: str
    text: str
    fenced: bool
    introduction: str

    @property
    def where(self) -> str:
        """The page and the line."""
        return f"{self.page}:{self.line}"

    @property
    def is_output(self) -> bool:
        """Whether the page says that the block before it prints this."""
        return self.fenced and self.language == "text" and bool(_PRINTS.search(self.introduction))


def blocks_of(path: Path, root: Path) -> list[Block]:
    """Return the code blocks of a page, in order.

    Args:
        path: A Markdown file.
        root: The root of the repository.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    found, at, page = list[Block](), 0, path.relative_to(root).as_posix()
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[2])
            own, language = lines[at + 1 : end], fence[3]
        elif (
            lines[at].startswith("    ") and _is_free(lines[at - 1] if at else "") and not _in_list(lines, at)
        ):
            end = next(
                (i for i in range(at, len(lines)) if lines[i].strip() and lines[i][:4].strip()), len(lines)
            )
            own, language = lines[at:end], ""
        else:
            at += 1
            continue
        text = textwrap.dedent("\n".join(own)).rstrip("\n") + "\n"
        first = at + 2 if fence else at + 1
        found.append(Block(page, first, language, text, bool(fence), _paragraph(lines, at)))
        at = end + bool(fence)
    return found


def _is_free(line: str) -> bool:
    """Return whether an indented line after this one begins a block, and does not go on with a paragraph."""
    return not line.strip() or line.startswith("#")


def _in_list(lines: list[str], at: int) -> bool:
    """Return whether an indented line continues a list item, and is not indented further than its text."""
    for line in reversed(lines[:at]):
        item = _ITEM.match(line)
        if item:
            return len(lines[at]) - len(lines[at].lstrip()) < len(item[0]) + 4
        if line.strip() and not line.startswith(" "):
            return False
    return False


def _paragraph(lines: list[str], at: int) -> str:
    """Return the last paragraph above a line."""
    while at and not lines[at - 1].strip():
        at -= 1
    end = at
    while at and lines[at - 1].strip():
        at -= 1
    return " ".join(line.strip() for line in lines[at:end])


def turns(text: str) -> list[tuple[str, str]]:
    """Return the commands of a `console` block, each with its output.

    Args:
        text: Lines that begin with `$ ` are commands. They may go on in the next line after a backslash.
    """
    found = list[tuple[str, str]]()
    for line in text.splitlines():
        command, output = found[-1] if found else ("", "")
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif command.endswith("\\") and not output:
            found[-1] = (f"{command}\n{line}", "")
        else:
            found[-1] = (command, f"{output}{line}\n")
    return found


def commands(block: Block) -> str:
    """Return the commands of a `sh` or `console` block.

    Args:
        block: The block.
    """
    if block.language == "sh":
        return block.text
    return "\n".join(command for command, _ in turns(block.text)) + "\n"
