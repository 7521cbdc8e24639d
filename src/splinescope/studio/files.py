"""The playground as files for any web host: the studio's own page, with the networks in a worker of the browser."""

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from ..plot.frame import pack
from ..support.errors import InputError
from .recipe import limits
from .scenes import SCENES, read_scene

CHOICES = {
    "activation": ("relu", "leaky", "abs"), "norm": ("none", "batch"), "init": ("default", "he", "zero bias", "mean"),
}  # fmt: skip
"""What `web/net.js` can do of what a recipe may say; all of every other switch."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'"
)
_PAGE = {
    '<html lang="en">': '<html lang="en" data-engine="worker">',
    '<meta charset="utf-8">': f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
    "Starting: torch and the kernels are being loaded…": "Starting…",
    '<main id="playground"': '<p class="unhosted">This page needs a web host. On your own machine, run <code>python -m '
    'http.server</code> in its folder and open localhost:8000.</p>\n<main id="playground"',
}


def write_playground(folder: str | os.PathLike[str], *, scenes: tuple[str, ...] = tuple(SCENES)) -> Path:
    """Write the playground and its stories, 500 kB, into a new or empty folder, for any web host; gives its page.

    The page trains networks and tiles them in the browser, exactly as the studio does: the same seed gives the same
    network. Piecewise-affine activations, batch norm and skips; no microscope. `scenes` are stories of moving points to
    record with it.
    """
    out = Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} must be a new or empty folder: what is in it would be mixed with the playground.")
    for name, package in (("static", "splinescope.studio"), ("viewer", "splinescope.plot")):
        (out / name).mkdir(parents=True)
        for each in (resources.files(package) / "web").iterdir():
            if each.is_file():
                (out / name / each.name).write_bytes(each.read_bytes())
    page = (out / "static" / "index.html").read_text(encoding="utf-8")
    (out / "static" / "index.html").unlink()
    for old, new in _PAGE.items():
        assert page.count(old) == 1, old
        page = page.replace(old, new)
    (out / "index.html").write_text(page, encoding="utf-8")
    (out / "static" / "limits.json").write_text(json.dumps(_limits(scenes)), encoding="utf-8")
    for scene in scenes:
        (out / "static" / f"scene-{scene}.bin").write_bytes(pack(read_scene(scene, 0)))
    return out / "index.html"


def _limits(scenes: tuple[str, ...]) -> dict[str, Any]:
    """What the page offers: the studio's switches, less what the worker cannot do."""
    all_ = limits()
    return {**all_, "choices": {**all_["choices"], **CHOICES}, "smooth": (), "scenes": scenes}
