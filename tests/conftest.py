"""Settings for all tests."""

import os

# Two test processes share two cores; more threads in each would only wait for each other.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
