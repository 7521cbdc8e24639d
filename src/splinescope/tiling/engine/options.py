"""How a tiling is made: the arguments of `tessellate` that its result does not depend on, and `rtol`, in one record."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from ...support.checks import check_choice, check_positive, check_whole
from ...support.errors import InputError
from ...support.progress import Progress, check_progress
from .time_limit import Clock

CHUNK_BYTES = 64 << 20  # the rows of one chunk


@dataclass(frozen=True)
class Options:
    """Arguments of `tessellate`, refused if they are not what it accepts; `clock` runs from when they are made."""

    rtol: float = 1e-12
    max_tiles: int | None = None
    time_limit: float | None = None
    progress: Progress | bool | None = None
    threads: int | None = None
    chunk_bytes: int = CHUNK_BYTES
    rows: str = "auto"
    workers: int | None = None
    folder: str | os.PathLike[str] | None = None
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.rtol, (int, float)) and np.isfinite(self.rtol) and 0 <= self.rtol < 1e-3):
            raise InputError(f"rtol must be a number in [0, 1e-3), got {self.rtol!r}.")
        for name in ("max_tiles", "threads", "chunk_bytes", "workers"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name)
        check_choice(self.rows, "rows", ("auto", "plain", "factored"))
        if self.time_limit is not None:
            check_positive(self.time_limit, "time_limit")
        if self.folder is not None and self.workers is None:
            raise InputError("folder keeps what workers have finished: it needs workers=.")
        check_progress(self.progress)
        object.__setattr__(self, "clock", Clock(self.time_limit))
