"""Settings for all tests: whatever runs first or beside it, on however busy a machine, a test has one outcome.

Random numbers that a test or a fixture draws without a seed of its own are the same in every run and order, and
hypothesis tries the same examples; `--hypothesis-profile=default` searches for new ones.
"""

import os
import random
import sys

# Two test processes share two cores; more threads in each would only wait for each other.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Some virtual machines announce AMX and forbid it: there a product of bfloat16 would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
os.environ["SPLINESCOPE_PROGRESS"] = "0"  # what is said to stderr does not depend on how long it took

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]  # time decides nothing
)  # fmt: skip
settings.load_profile("repeatable")


def seed_everything() -> None:
    random.seed(20260)
    np.random.seed(20260)  # noqa: NPY002  # of libraries that draw from it
    torch.manual_seed(20260)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    seed_everything()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    seed_everything()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Figures of one test are none of the next: pyplot keeps them all, and warns from twenty on."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
