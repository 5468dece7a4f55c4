"""A design for actions in a file that is too large for the memory of the process.

    python benchmarks/mapped_actions.py [--rows 5000000] [--folder PATH]

A file of 50 columns, 2 GB by default, is written to a folder and memory-mapped. The operating system then
limits the data of this process to a quarter of the file size, so loading the file fails, and so would any
copy. The script prints the passes over the rows, and the CPU time divided by that of one product of the rows
with a d × d matrix, computed block by block from the same mapping. The exit status is non-zero if the design
does not hold.
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
    """Write Gaussian rows in blocks."""
    rng = np.random.default_rng(0)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, COLUMNS))
    for first in range(0, rows, BLOCK):
        here = mapped[first : first + BLOCK]
        here[:] = rng.standard_normal(here.shape)
    mapped.flush()


def one_pass(mapped: np.ndarray) -> None:
    """Multiply by a d × d matrix, keeping only one block of the result."""
    matrix, found = np.eye(COLUMNS) + 0.1, np.empty((BLOCK, COLUMNS))
    for first in range(0, len(mapped), BLOCK):
        here = mapped[first : first + BLOCK]
        np.matmul(here, matrix, out=found[: len(here)])


def forbid(data: int) -> None:
    """Limit this process to `data` more bytes than it holds now."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    held = re.search(r"VmData:\s+(\d+) kB", status)
    assert held is not None
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * int(held[1]) + data,) * 2)


def measure(path: Path) -> bool:
    """Measure one file."""
    # A first design makes the libraries allocate their own buffers before the limit is set.
    near_g_optimal(np.random.default_rng(1).standard_normal((9000, COLUMNS)))
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
    parser.add_argument("--folder", help="where to write the file (default: the system's temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, threadpool_limits(limits=1):
        path = Path(folder) / "actions.npy"
        write(path, options.rows)
        return int(not measure(path))


if __name__ == "__main__":
    sys.exit(main())
