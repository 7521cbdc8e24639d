"""How every hot loop is compiled: by numba, once per machine, kept beside the source.

numba's own cache follows the file of a function but not what that function calls, so that a change in one kernel left
the old machine code of its callers in use; and it loads all of its type system (0.3 s) before it takes compiled code
from the disk. Here the cache is keyed by the contents of a kernel's whole folder, and loading does only what it must.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from ._interrupt import held_back


@cache
def folder_digest(folder: Path) -> bytes:
    """SHA-256 of the names and contents of the Python files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


class _FolderCache(FunctionCache):
    """numba's cache of one function, stale as soon as any file of its folder has changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (
            self._cache_file._source_stamp,
            folder_digest(Path(function.__code__.co_filename).parent),
        )

    def load_overload(self, signature: Any, target: Any) -> Any:
        rtsys.initialize(target)  # what compiled code calls; numba would also load what only a compilation needs
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)


def _uninterrupted(compiling: Callable[..., Any]) -> Callable[..., Any]:
    """Ctrl-C waits for a kernel that is being compiled: LLVM calls back into Python, where it would be lost."""

    @wraps(compiling)
    def compile_whole(*arguments: Any, **options: Any) -> Any:
        with held_back():
            return compiling(*arguments, **options)

    return compile_whole


@cache
def _tell_that_nothing_is_kept() -> None:
    warnings.warn(
        "Compiled kernels cannot be kept: neither the folder of splinescope nor the user's cache can be written to. "
        "Each process compiles them anew, for seconds; set NUMBA_CACHE_DIR to a folder that can be.",
        stacklevel=2,
    )


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit` with these options, without the interpreter's lock, cached on disk: `@jit` or `@jit(inline=...)`."""
    if function is None:
        return partial(jit, **options)
    compiled: Any = numba.njit(nogil=True, **options)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT gives the function itself, to be run step by step
        try:
            compiled._cache = _FolderCache(function)
        except RuntimeError:  # numba found no folder that can be written to, not even in the user's home
            _tell_that_nothing_is_kept()
        compiled.compile = _uninterrupted(compiled.compile)
    return compiled


in_place = jit(_nrt=False)
"""`jit` for functions that only read and write arrays they are given. Numba then counts no references: two locked
instructions wherever an array is handed to an inlined helper or a row of it gets a name, 40% of the time of a cut.
Compiling a function that makes an array fails."""
