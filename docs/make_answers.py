"""Draws the figures of the open questions from full-size results: `python docs/make_answers.py FOLDER [PAGE...]`.

FOLDER holds `ID.json` as `splinescope reproduce ID --out FOLDER` writes it. A page quotes docs/evidence.json, so a
figure is drawn only from a run that measured what stands there.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import answers_essay
import answers_survey
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).resolve().parent
FIGURES = {
    "batch_norm_early": ("survey-merge-away", answers_survey.batch_norm_early),
    "normalizations": ("survey-placed-norms", answers_survey.normalizations),
    "optimizer": ("survey-optimizer", answers_survey.optimizer),
    "manifold": ("survey-manifold-law", answers_survey.manifold),
    "self_similarity": ("survey-self-similarity", answers_survey.self_similarity),
    "migration": ("survey-migration", answers_survey.migration),
    "batch_size": ("essay-fidelity", answers_essay.batch_size),
    "batch_size-tells": ("essay-fidelity-tells", answers_essay.fidelity_tells),
    "initialization": ("essay-initialization-deep", answers_essay.initialization),
}
"""Page in docs/open_questions (and which figure of it) -> the experiment and what draws its answer."""


def main(folder: Path, pages: list[str]) -> None:
    for page in pages or list(FIGURES):
        name, draw = FIGURES[page]
        numbers = quoted(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
        size = save(draw(numbers), DOCS / "images" / f"answer-{page}.png")
        print(f"{page}: {size // 1000} kB", flush=True)


def quoted(result: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a result, refused unless it measured what docs/evidence.json says of the experiment."""
    records = {row["id"]: row for row in json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))}
    own, told = ([claim["measured"] for claim in row["claims"]] for row in (result, records[result["id"]]))
    if own != told:
        raise SystemExit(f"{result['id']} measured something else than docs/evidence.json: run it again, or quote it.")
    numbers: dict[str, Any] = result["numbers"]
    return numbers


def save(figure: Figure, path: Path) -> int:
    """Write a figure with a palette of 256 colors, which lines and text do not outgrow; its size in bytes."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, format="png")
    plt.close(figure)
    image = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    return path.stat().st_size


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
