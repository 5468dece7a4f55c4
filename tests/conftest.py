"""Shared by all tests: one BLAS thread, and Hypothesis settings that do not flake on a slow machine."""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import settings

settings.register_profile("dpbandits", deadline=None, derandomize=True)
settings.load_profile("dpbandits")
