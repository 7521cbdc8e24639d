"""Machine code on the disk is that of the source: a change in any kernel is seen by all of its callers."""

import importlib
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core import compiler
from numba.core.caching import NullCache

from splinescope.support import compile
from splinescope.support.compile import folder_digest, jit
from splinescope.support.threads import ALONE
from splinescope.tiling import kernels

FOLDER = Path(kernels.__file__).parent


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the kernels, and a function that loads it as a fresh process would."""
    shutil.copytree(FOLDER, tmp_path / "copied_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.syspath_prepend(tmp_path)

    def load():
        for name in [name for name in sys.modules if name.partition(".")[0] == "copied_kernels"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        folder_digest.cache_clear()
        return importlib.import_module("copied_kernels")

    yield tmp_path / "copied_kernels", load
    for name in [name for name in sys.modules if name.partition(".")[0] == "copied_kernels"]:
        del sys.modules[name]


def first_negative_corner(kernels) -> tuple[int, int]:
    """By a kernel that asks one of another file for signs; and how often it was taken from the disk."""
    corners = np.array([0, 1, 2, 3], np.int32)
    pos, neg = np.array([[1], [1], [0], [0]], np.uint64), np.array([[0], [0], [1], [1]], np.uint64)
    crossing = kernels.cut_polygons._crossing
    first, _, _ = crossing(corners, 0, 4, 0, 0, -1, pos, neg)
    return int(first), sum(crossing.stats.cache_hits.values())


def test_a_change_in_one_kernel_reaches_its_callers_in_other_files(copy):
    folder, load = copy
    assert first_negative_corner(load()) == (2, 0)  # compiled now
    assert first_negative_corner(load()) == (2, 1)  # taken from the disk
    bits = folder / "sign_bits.py"
    source = bits.read_text()
    swapped = source.replace("        return -1\n    return 0", "        return 1\n    return 0")
    swapped = swapped.replace("        return 1\n    if neg", "        return -1\n    if neg")
    assert swapped != source
    bits.write_text(swapped)
    assert first_negative_corner(load()) == (1, 0), "the caller runs the machine code of the kernel as it was"


def test_loading_compiled_code_does_not_load_what_only_a_compilation_needs(copy):
    """numba's typing of arrays takes 0.3 s to import; a process that finds its kernels on the disk does without it."""
    folder, load = copy
    areas, points = np.empty(1), np.array([[0.0, 0], [1, 0], [0, 1]])
    load().polygon_areas(np.array([0, 3]), np.arange(3, dtype=np.int32), points, areas)  # compiled now
    code = (
        "import sys, numpy as np, copied_kernels as kernels;"
        "areas = np.empty(1); points = np.array([[0., 0], [1, 0], [0, 1]]);"
        "kernels.polygon_areas(np.array([0, 3]), np.arange(3, dtype=np.int32), points, areas);"
        "print(areas[0], 'numba.core.typing.arraydecl' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder.parent)
    assert run.stdout.split() == ["0.5", "False"]


def test_ctrl_c_waits_for_a_kernel_that_is_being_compiled(monkeypatch):
    """LLVM calls back into Python, where a KeyboardInterrupt is lost and leaves a kernel half made."""
    compile_kernel, arrays = compiler.compile_extra, np.zeros((2, 3))

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return compile_kernel(*arguments, **options)

    kernel = jit(lambda x: x.sum() + 1.0)
    kernel._cache = NullCache()
    monkeypatch.setattr(compiler, "compile_extra", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(arrays)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    assert kernel.signatures, "it was compiled to the end"
    assert kernel(arrays) == 1.0


def test_no_model_is_read_while_a_kernel_is_compiled(monkeypatch):
    """torch puts its own functions in the place of `min` and others while it reads, and numba would take those."""
    compile_kernel, seen = compiler.compile_extra, []

    def model_can_be_read():
        taken = ALONE.acquire(blocking=False)
        if taken:
            ALONE.release()
        return taken

    def watched(*arguments, **options):
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(model_can_be_read).result())
        return compile_kernel(*arguments, **options)

    kernel = jit(lambda x: min(x.sum(), 1.0))
    kernel._cache = NullCache()
    monkeypatch.setattr(compiler, "compile_extra", watched)
    assert kernel(np.ones(3)) == 1.0
    assert seen
    assert not any(seen)
    assert model_can_be_read()


def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same(monkeypatch):
    def no_place(self, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compile._FolderCache, "__init__", no_place)
    compile._tell_that_nothing_is_kept.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
        kernel = jit(lambda x: x.sum() + 1.0)
    assert kernel(np.zeros(3)) == 1.0
