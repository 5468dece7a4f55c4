"""Runs one site of a test: python -m tests.federation.run_site SITE.toml."""

import signal
import sys
from pathlib import Path

from dpbandits.federation import read_site
from dpbandits.federation.flower import SuperNode

from .deployed import SEEDED


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    SuperNode(read_site(Path(sys.argv[1])), SEEDED).run()


if __name__ == "__main__":
    main()
