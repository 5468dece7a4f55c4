"""Imports httpx without its command line.

If click, pygments and rich are installed, `import httpx` also imports them for `httpx.main`. This costs a
client 5 MB of memory. httpx works without that module, so this file hides it while httpx is imported.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # makes its import fail

import httpx as httpx  # noqa: E402

if _COMMAND_LINE in sys.modules and sys.modules[_COMMAND_LINE] is None:
    del sys.modules[_COMMAND_LINE]
