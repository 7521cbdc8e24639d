"""Parts of a long run that outlast an interruption: JSON files beside the results, until the result is there."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splinescope.support.checks import reading
from splinescope.support.files import replacing


@dataclass
class Parts:
    """Where the parts of a run are, and the CPU seconds that those took which were there already."""

    folder: Path
    seconds: float = 0.0


_PARTS: ContextVar[Parts | None] = ContextVar("parts of the run", default=None)


def part(name: str, make: Callable[[], Any]) -> Any:
    """`make()` as JSON returns it, or what it returned before an interruption; outside `parts_in` it is just made."""
    parts = _PARTS.get()
    if parts is None:
        return json.loads(as_json(make()))
    file = parts.folder / f"{name}.json"
    if file.exists():
        with reading(file):
            found = json.loads(file.read_text(encoding="utf-8"))
            parts.seconds += found["seconds"]
            return found["value"]
    busy = time.process_time()
    text = as_json({"value": make(), "seconds": time.process_time() - busy})
    parts.folder.mkdir(exist_ok=True)
    with replacing(file) as partial:
        partial.write_text(text, encoding="utf-8")
    return json.loads(text)["value"]


@contextmanager
def parts_in(folder: Path) -> Iterator[Parts]:
    """Keep parts in `folder`, whose name says what makes them; it is removed at the end, unless the block fails."""
    parts = Parts(folder)
    token = _PARTS.set(parts)
    try:
        yield parts
    finally:
        _PARTS.reset(token)
    shutil.rmtree(folder, ignore_errors=True)


def as_json(value: Any, **options: Any) -> str:
    """JSON text, also of numpy scalars and arrays, and of torch tensors."""
    return json.dumps(value, default=_plain, **options)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-ready")
