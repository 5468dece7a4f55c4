"""Runs `dpbandits` on a machine whose clock is wrong: `python skewed.py SECONDS serve STUDY.toml`."""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    ahead, right = float(sys.argv[1]), time.time
    time.time = lambda: right() + ahead  # before anything keeps a reference to it
    from dpbandits.cli import main

    sys.exit(main(sys.argv[2:]))
