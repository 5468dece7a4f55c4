"""Actions in a memory-mapped file that is larger than the memory limit of the process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

ROWS, COLUMNS = 150_000, 50  # 60 MB
ALLOWED = ROWS * COLUMNS * 8 // 2

SCRIPT = """
import re, resource, sys
from pathlib import Path
import numpy as np
from dpbandits.cli import main
from dpbandits.design import near_g_optimal

near_g_optimal(np.random.default_rng(0).standard_normal((9000, 50)))  # allocates library buffers
held = 1024 * int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]),) * 2)
if sys.argv[3] == "load":
    try:
        np.load(sys.argv[1])
    except MemoryError:
        print("refused")
elif sys.argv[3] == "design":
    print("holds" if near_g_optimal(np.load(sys.argv[1], mmap_mode="r")).certificate.holds else "fails")
else:
    sys.exit(main(["design", sys.argv[1]]))
"""


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "actions.npy"
    np.save(path, np.random.default_rng(1).standard_normal((ROWS, COLUMNS)))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="limits of data are Linux's")
@pytest.mark.parametrize(
    ("what", "said"), [("load", "refused"), ("design", "holds"), ("cli", "certified: g")]
)
def test_a_file_that_cannot_be_loaded_has_a_design(mapped, what, said):
    command = [sys.executable, "-c", SCRIPT, str(mapped), str(ALLOWED), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
