"""Lists of independent items shared between processes, by joblib: on this machine, or wherever its backend runs.

`joblib.parallel_config(backend="dask")` (or ray) around a call sends the same work to a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

from ._checks import require
from ._errors import SplinescopeError
from ._files import replacing

Arrays = dict[str, np.ndarray]
"""What a piece of work returns: arrays by name (tensors are forty times slower to send)."""


def share(
    work: Callable[..., Arrays],
    items: Sequence[tuple[Any, ...]],
    names: Sequence[str],
    *,
    workers: int,
    folder: str | os.PathLike[str] | None = None,
    done: Callable[[int], None] | None = None,
) -> list[Arrays]:
    """`work(*item)` for every item, in as many processes as there are workers; results in the order of the items.

    What is finished is kept when a worker dies: the rest is tried once more, then an error names it. With a folder,
    each result is also written there under its name as soon as it is there, and found there by a second run.

    Args:
        work: A function of this package or another importable module.
        items: Its arguments; numpy arrays travel by shared memory.
        names: One per item: what errors and files call it. With a folder they must tell different work apart.
        workers: Number of processes.
        folder: Where finished results are kept, as `.npz` files.
        done: Called with the number of an item when it is finished.

    Raises:
        SplinescopeError: A worker died twice; what is not done is named.
        Exception: What `work` itself raises.
    """
    joblib = require("joblib", "parallel")
    place = None if folder is None else Path(folder)
    results: dict[int, Arrays] = {}
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
        for i, name in enumerate(names):
            if (place / f"{name}.npz").exists():
                results[i] = _read(place / f"{name}.npz")
                if done is not None:
                    done(i)
    for attempt in (1, 2):
        left = [i for i in range(len(items)) if i not in results]
        if not left:
            break
        calls = (joblib.delayed(_numbered)(work, i, items[i]) for i in left)
        try:
            for i, result in joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(calls):
                results[i] = result
                if place is not None:
                    with replacing(place / f"{names[i]}.npz") as path, open(path, "wb") as file:
                        np.savez(file, allow_pickle=False, **result)
                if done is not None:
                    done(i)
        except BrokenProcessPool as error:  # killed, out of memory: joblib's own error is one of these
            lost = ", ".join(names[i] for i in left if i not in results)
            if attempt == 2:
                kept = "" if place is None else f" What is finished is in {place}: the same call goes on from there."
                raise SplinescopeError(f"A worker process died twice; not done: {lost}.{kept}") from error
    return [results[i] for i in range(len(items))]


def _numbered(work: Callable[..., Arrays], number: int, item: tuple[Any, ...]) -> tuple[int, Arrays]:
    return number, work(*item)


def _read(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
