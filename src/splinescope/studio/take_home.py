"""The file of a tiling, for a reader to take home; pictures and pages are made by the page itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..tiling import Tiling


def tiling_file(tiling: Tiling, name: str) -> dict[str, Any]:
    """The bytes of a tiling's file with its name, ready for a frame."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiling")
        tiling.save(path)
        return {"file": f"{name}.tiling", "bytes": np.frombuffer(path.read_bytes(), np.uint8)}
