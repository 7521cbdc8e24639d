"""What a reader may take home of a tiling: the file itself, or a page to explore."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import check_choice
from ..plot.page import render_page
from ..tiling import Tiling

KINDS = ("tiling", "html")


def take(tiling: Tiling, kind: Any, name: str) -> dict[str, Any]:
    """The bytes of a file with its name, ready for a frame."""
    check_choice(str(kind), "kind", KINDS)
    if kind == "html":
        content = render_page(tiling, title=name).encode()
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tiling")
            tiling.save(path)
            content = path.read_bytes()
    return {"file": f"{name}.{kind}", "bytes": np.frombuffer(content, np.uint8)}
