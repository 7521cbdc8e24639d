"""The figures of experiments for the pages: drawn from a full run in one style, small enough to ship.

`python -m splinescope_evidence.framework.pictures RUN docs` draws those of the results in RUN that measured what
`docs/evidence.json` says, or with another seed what `docs/evidence-again.json` says: that one stands in for the first.
"""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path
from typing import Any

from .cards import NUMBER, card_of
from .pages import read_known, read_records
from .registry import find, ids

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.prop_cycle": "cycler('color', ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'])",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.titlesize": 11,
}
"""One look for all figures, with colors that color-blind eyes tell apart."""

WIDTH = 1000
"""Pixels, at most: a page is narrower."""

DPI = 140
"""At most: a single panel is not blown up to the width of the page."""

INCHES = 9.6
"""At most: on a wider figure letters would be too small to read at the width of the page."""


def draw_figures(run: Path, docs: Path) -> list[Path]:
    """Draw the figures of a run's results into `docs/findings/figures`; returns the files.

    A result that measured something else than the record of the page is left out, as a figure shows what its card says;
    so is one whose card has another picture.
    """
    import matplotlib as mpl
    from matplotlib import pyplot
    from PIL import Image

    told = {
        (r["id"], end): [claim["measured"] for claim in r["claims"]]
        for end, name in (("", "evidence.json"), ("-again", "evidence-again.json"))
        for r in read_known(docs / name)
    }
    folder = docs / "findings" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for result in read_records(run):
        name, measured = result["id"], [claim["measured"] for claim in result["claims"]]
        end = next((end for end in ("", "-again") if alike(told.get((name, end), []), measured)), None)
        first = folder / f"{name}.png"
        if end is None or name not in ids() or card_of(result).figure or (end and first.is_file()):
            continue
        folder.joinpath(f"{name}-again.png").unlink(missing_ok=True)
        with mpl.rc_context(STYLE):
            figure = find(name).draw(result["numbers"])
            width, height = figure.get_size_inches()
            if width > INCHES:
                figure.set_size_inches(INCHES, height * math.sqrt(INCHES / width))
            pixels = io.BytesIO()
            figure.savefig(pixels, dpi=min(DPI, WIDTH / figure.get_figwidth()), format="png", bbox_inches="tight")
        pyplot.close(figure)
        drawn.append(first.with_stem(name + end))
        # A palette of 128 colors: lines and text do not outgrow it, and a file is a third of the size. It covers the
        # range of the colors, or few pixels at the bright end of a scale would all look alike.
        palette = Image.open(pixels).convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        palette.save(drawn[-1], optimize=True)
    return drawn


def alike(first: list[str], second: list[str]) -> bool:
    """Whether two runs measured the same, but for rounding errors, which differ between machines, and times."""
    for a, b in zip(first, second, strict=False):
        if NUMBER.sub("", a) != NUMBER.sub("", b):
            return False
        for one, other in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True):
            u, v = (float(number.rstrip("%").replace(",", "")) for number in (one, other))
            if not math.isclose(u, v, rel_tol=0.05, abs_tol=1e-6):
                return False
    return len(first) == len(second) > 0


if __name__ == "__main__":
    files = draw_figures(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{len(files)} figures, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")
