"""`python -m dpbandits.cli`, for use where the `dpbandits` script is not on the path."""

import sys

from dpbandits.cli import main

if __name__ == "__main__":
    sys.exit(main())
