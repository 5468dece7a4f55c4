"""httpx without its command line.

Where click, pygments and rich are installed, `import httpx` also imports them for `httpx.main`, which costs a
client 5 MB of memory. httpx does without that module if it cannot be imported, so it is hidden meanwhile.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # makes its import fail

import httpx as httpx  # noqa: E402

if _COMMAND_LINE in sys.modules and sys.modules[_COMMAND_LINE] is None:
    del sys.modules[_COMMAND_LINE]
