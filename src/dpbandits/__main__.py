"""Runs the command line: `python -m dpbandits` is the same as `dpbandits`."""

import sys

from dpbandits.cli import main

if __name__ == "__main__":
    sys.exit(main())
