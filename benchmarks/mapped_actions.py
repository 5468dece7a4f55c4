"""A design for actions in a file that the process may not load.

    python benchmarks/mapped_actions.py [--rows 5000000] [--folder PATH]

A file of 50 columns, 2 GB by default, is written to a folder and mapped. The system is then told to refuse
this process more data than a quarter of the file, so loading it fails, and so would any copy. Given are the
passes over the rows, and CPU time over that of one product of the rows with a d × d matrix, block by block
from the same mapping. The exit status is non-zero if the design does not hold.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits.design import near_g_optimal

COLUMNS = 50
BLOCK = 1 << 13
SHARE = 1 / 4


def write(path: Path, rows: int) -> None:
    """Gaussian rows, a block at a time."""
    rng = np.random.default_rng(0)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, COLUMNS))
    for first in range(0, rows, BLOCK):
        here = mapped[first : first + BLOCK]
        here[:] = rng.standard_normal(here.shape)
    mapped.flush()


def one_pass(mapped: np.ndarray) -> None:
    """The product with a d × d matrix, of which no more than a block is kept."""
    matrix, found = np.eye(COLUMNS) + 0.1, np.empty((BLOCK, COLUMNS))
    for first in range(0, len(mapped), BLOCK):
        here = mapped[first : first + BLOCK]
        np.matmul(here, matrix, out=found[: len(here)])


def forbid(data: int) -> None:
    """Let this process have no more than so many bytes beside what it has."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    held = re.search(r"VmData:\s+(\d+) kB", status)
    assert held is not None
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * int(held[1]) + data,) * 2)


def measure(path: Path) -> bool:
    """Everything about one file."""
    near_g_optimal(np.random.default_rng(1).standard_normal((9000, COLUMNS)))  # the libraries' own buffers
    mapped = np.load(path, mmap_mode="r")
    forbid(int(SHARE * mapped.nbytes))
    try:
        np.load(path)
    except MemoryError:
        print(f"{mapped.nbytes / 1e9:.2f} GB in a file, {SHARE:g} of that allowed: loading it is refused")
    else:
        print("loading the file was not refused: the limit does not work here")
        return False
    one_pass(mapped)
    started = time.process_time()
    one_pass(mapped)
    product = time.process_time() - started
    started = time.process_time()
    design = near_g_optimal(mapped)
    ours = time.process_time() - started
    certificate = design.certificate
    print(f"design: g / d = {certificate.g / design.rank:.3f}, {design.support.size} rows, ", end="")
    print(f"{certificate.passes:.2f} passes, {ours / product:.2f} x one product from the file")
    return certificate.holds


def main() -> int:
    """Write the file, measure, and remove it."""
    parser = argparse.ArgumentParser(description="Measure a design for a mapped file.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder", help="where the file is written (default: the system's own)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, threadpool_limits(limits=1):
        path = Path(folder) / "actions.npy"
        write(path, options.rows)
        return int(not measure(path))


if __name__ == "__main__":
    sys.exit(main())
