"""Plugins: installed packages that register mechanisms and trust models.

A package names its plugins in the entry-point group `dpbandits.mechanisms`:

    [project.entry-points."dpbandits.mechanisms"]
    one-bit = "one_bit"            # a module that registers when it is imported
    geometric = "noise:register"   # or a function that registers when it is called

All entry points of the group are loaded together, once per process, when a name that is not built in is first
looked up. No other code is imported: a name in a plan or a study file does not choose what is loaded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "dpbandits.mechanisms"


@cache
def load_plugins() -> tuple[InvalidValue, ...]:
    """Load every installed plugin, once.

    Returns:
        One error for each plugin that cannot be loaded. A broken plugin does not stop the others.
    """
    from importlib.metadata import entry_points  # slow to import, and needed for names that are not built in

    return tuple(error for entry in entry_points(group=GROUP) if (error := _load(entry)) is not None)


def _load(entry: EntryPoint) -> InvalidValue | None:
    try:
        loaded = entry.load()
        if callable(loaded):
            loaded()
    except Exception as error:  # a plugin can run any code, so any error can occur
        package = entry.dist.name if entry.dist is not None else "unknown"
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        expected = f"an entry point that loads ({reason})"
        return InvalidValue("plugin", f"{entry.name} of package {package}", expected)
    return None
