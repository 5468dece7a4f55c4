"""TOML files with errors that name the file, the line, the section and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dpbandits.errors import DpbanditsError, InvalidValue

Value = TypeVar("Value")


class TomlFile:
    """A TOML file that consists of sections.

    Example of an error: `study.toml, line 7, privacy.epsilon: got -1, expected a finite number > 0`.

    Args:
        path: The file.

    Raises:
        InvalidValue: The file does not exist or is not valid TOML.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidValue("file", path, "an existing TOML file")
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        try:
            self._content = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidValue(str(path), "invalid TOML", f"valid TOML ({error})") from None

    def sections(self, known: Mapping[str, tuple[str, ...]]) -> None:
        """Check that the file has no unknown sections or keys.

        Args:
            known: The known keys of each section; an empty tuple accepts all keys.

        Raises:
            InvalidValue: A section or key is unknown; the error names its line and the accepted names.
        """
        for section, content in self._content.items():
            if section not in known:
                raise self._mistake(section, None, section, "one of " + ", ".join(known))
            if not isinstance(content, dict):
                raise self._mistake(section, None, "a value", f"a section [{section}]")
            for key in content:
                if known[section] and key not in known[section]:
                    raise self._mistake(section, key, key, "one of " + ", ".join(known[section]))

    def section(self, name: str) -> dict[str, Any]:
        """Return the keys and values of a section; empty if the file does not have it.

        Args:
            name: The name of the section.
        """
        return dict(self._content.get(name, {}))

    def has(self, section: str) -> bool:
        """Return whether the file has a section.

        Args:
            section: The name of the section.
        """
        return section in self._content

    def text(self, section: str, key: str) -> str:
        """Return a required string.

        Args:
            section: The name of the section.
            key: The key.

        Raises:
            InvalidValue: The key is missing, or its value is not a string.
        """
        value = self._content.get(section, {}).get(key)
        if not isinstance(value, str):
            raise self._mistake(section, key, value, "a string")
        return value

    def file(self, section: str, key: str) -> Path:
        """Return a required path, taken relative to the file's directory.

        Args:
            section: The name of the section.
            key: The key.

        Raises:
            InvalidValue: The key is missing, or its value is not a string.
        """
        return self.path.parent / self.text(section, key)

    def existing(self, section: str, key: str) -> Path:
        """Return a required path of a file that exists.

        Args:
            section: The name of the section.
            key: The key.

        Raises:
            InvalidValue: The key is missing, or there is no such file.
        """
        path = self.file(section, key)
        if not path.is_file():
            raise self._mistake(section, key, path, "an existing file")
        return path

    def build(
        self, section: str, make: Callable[..., Value], *, at: str | None = None, **fixed: Any
    ) -> Value:
        """Construct an object from the keys of a section. Errors name the line.

        Args:
            section: The section.
            make: Called with the keys of the section as keyword arguments.
            at: The key whose line an error names if its own field is not a key of the section.
            **fixed: Further arguments; they override keys of the section.

        Returns:
            The result of `make`.

        Raises:
            InvalidValue: A value is missing or not accepted; the error names its line.
            DpbanditsError: `make` raised another error of dpbandits; the message names the section.
        """
        content = self.section(section)
        try:
            return make(**{**content, **fixed})
        except InvalidValue as error:
            if error.field.startswith(f"{self.path}, "):  # the error already names the line
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
        """Return the line of a key or, if it is missing, of its section; None if the file has neither."""
        found, inside = None, False
        for number, line in enumerate(self._text.splitlines(), 1):
            heading = re.match(r"\s*\[\s*([\w-]+)", line)
            if heading:
                inside = heading[1] == section
                found = number if inside else found
            elif inside and key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return found
