"""Draws the pictures of the guides anew from the gallery's examples: `python docs/make_images.py [PART...]`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {
    "landscape": "landscape/plot_exact_pieces.py",
    "normalization": "normalization/plot_folds_on_data.py",
    "representation": "representation/plot_angles.py",
    "meanfield": "meanfield/plot_neurons_on_the_ellipse.py",
    "generative": "generative/plot_manifold.py",
    "smooth": "smooth/plot_within_a_tolerance.py",
    "blocks": "smooth/plot_block.py",
}
"""Picture -> the example whose first figure it is."""


def main(parts: list[str]) -> None:
    """Run the examples of these parts and keep the first figure of each."""
    for part in parts or list(PICTURES):
        plt.close("all")
        runpy.run_path(str(ROOT / "examples" / PICTURES[part]))
        figure = plt.figure(min(plt.get_fignums()))
        figure.savefig(ROOT / "docs" / "images" / f"{part}.png", dpi=90, bbox_inches="tight")
        print(part, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
