"""TOML files whose mistakes are told with the line they are on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dpbandits.errors import DpbanditsError, InvalidValue

Value = TypeVar("Value")


class TomlFile:
    """A file of sections; what is not asked for is a mistake too."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidValue("file", path, "an existing TOML file")
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        try:
            self._content = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidValue(str(path), "unreadable TOML", f"valid TOML ({error})") from None

    def sections(self, known: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse sections and keys that nobody knows."""
        for section, content in self._content.items():
            if section not in known:
                raise self._mistake(section, None, section, "one of " + ", ".join(known))
            if not isinstance(content, dict):
                raise self._mistake(section, None, "a value", f"a section [{section}]")
            for key in content:
                if known[section] and key not in known[section]:
                    raise self._mistake(section, key, key, "one of " + ", ".join(known[section]))

    def section(self, name: str) -> dict[str, Any]:
        """The keys and values of a section; empty if it is not there."""
        return dict(self._content.get(name, {}))

    def has(self, section: str) -> bool:
        """Whether there is such a section."""
        return section in self._content

    def text(self, section: str, key: str) -> str:
        """A text that must be there."""
        value = self._content.get(section, {}).get(key)
        if not isinstance(value, str):
            raise self._mistake(section, key, value, "a text")
        return value

    def file(self, section: str, key: str) -> Path:
        """A path, relative to the file's own directory."""
        return self.path.parent / self.text(section, key)

    def existing(self, section: str, key: str) -> Path:
        """The same for a file that must be there."""
        path = self.file(section, key)
        if not path.is_file():
            raise self._mistake(section, key, path, "an existing file")
        return path

    def build(
        self, section: str, make: Callable[..., Value], *, at: str | None = None, **fixed: Any
    ) -> Value:
        """A value from a section's keys; what it refuses is told with its line, or that of the key `at`."""
        content = self.section(section)
        try:
            return make(**{**content, **fixed})
        except InvalidValue as error:
            if error.field.startswith(f"{self.path}, "):  # it is told already where
                raise
            key = error.field.split(".")[-1].split("[")[0]
            known = key if key in content else at
            raise self._mistake(section, known, error.value, error.expected, error.field) from None
        except TypeError as error:
            if "missing" not in str(error):
                raise self._mistake(section, None, "these keys", str(error)) from None
            missing = re.findall(r"'(\w+)'", str(error))
            raise self._mistake(section, None, "nothing", "a value", ", ".join(missing)) from None
        except DpbanditsError as error:
            raise DpbanditsError(f"{self._place(section, None)}, [{section}] {error}") from None

    def _mistake(
        self, section: str, key: str | None, value: object, expected: str, field: str | None = None
    ) -> InvalidValue:
        named = f"{section}.{field or key}" if field or key else section
        return InvalidValue(f"{self._place(section, key)}, {named}", value, expected)

    def _place(self, section: str, key: str | None) -> str:
        line = self._line(section, key)
        return f"{self.path}" if line is None else f"{self.path}, line {line}"

    def _line(self, section: str, key: str | None) -> int | None:
        """Where a key is, or its section, or nothing if neither is there."""
        found, inside = None, False
        for number, line in enumerate(self._text.splitlines(), 1):
            heading = re.match(r"\s*\[\s*([\w-]+)", line)
            if heading:
                inside = heading[1] == section
                found = number if inside else found
            elif inside and key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return found
