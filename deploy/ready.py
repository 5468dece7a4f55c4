"""Health check of a container or a unit: exits with 0 if the service at URL is ready, for example

    python ready.py https://127.0.0.1:8443/readyz

The certificate is not verified: use this with a loopback address only.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request

SECONDS = 5


def main(url: str) -> int:
    """Return 0 if the service responds that it is ready, otherwise 1 after one line on standard error."""
    unverified = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=unverified) as reply:
            return 0 if reply.status == 200 else 1
    except OSError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
