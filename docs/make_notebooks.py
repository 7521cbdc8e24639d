"""Writes the notebooks of `notebooks/`, with their output: `python docs/make_notebooks.py [NAME...]`.

A notebook is a page or an example of the gallery, block by block: `cells(name)` reads it, `run` adds what its code
prints and draws. Needs matplotlib only, no Jupyter.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "first-steps": "docs/first-steps.md",
    "batch-norm": "examples/normalization/plot_folds_on_data.py",
    "grokking": "examples/complexity/plot_watch_training.py",
    "generator": "examples/generative/plot_manifold.py",
    "transformer": "examples/smooth/plot_tokens.py",
}
"""Notebook -> the page or script that it is made of."""
INSTALL = """import importlib.util

if importlib.util.find_spec("splinescope") is None:  # as on Colab
    source = "https://github.com/splinescope/splinescope"
    get_ipython().run_line_magic("pip", f"install -q 'splinescope[plot,data] @ git+{source}'")"""
"""The first code of every notebook: it runs wherever it is opened."""
SECOND = """import importlib.util

if importlib.util.find_spec("splinescope_evidence") is None:  # as on Colab
    source = "https://github.com/splinescope/splinescope"
    both = f"'splinescope @ git+{source}' 'splinescope-evidence @ git+{source}#subdirectory=evidence'"
    get_ipython().run_line_magic("pip", f"install -q {both}")"""
"""The same where the second distribution is used, which asks for the extras itself."""


def cells(name: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) of a notebook's cells."""
    text = (ROOT / SOURCES[name]).read_text(encoding="utf-8")
    first, *rest = _of_page(text) if SOURCES[name].endswith(".md") else _of_script(text)
    second = any(re.search(r"^(from|import) splinescope_", text, flags=re.MULTILINE) for _, text in rest)
    return [first, ("code", SECOND if second else INSTALL), *rest]


def _of_page(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"^```text\n.*?^```\n+", "", text, flags=re.DOTALL | re.MULTILINE)  # the notebook has its own output
    text = re.sub(r"^!\[.*\]\(images/.*\)\n+(\*[^*]+\*\n+)?", "", text, flags=re.MULTILINE)  # pictures and captions
    text = re.sub(r"\]\((?!https?:)([\w./#-]+)\)", r"](../docs/\1)", text)
    found = []
    for i, part in enumerate(re.split(r"^```python\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE)):
        if part.strip():
            found.append(("code" if i % 2 else "markdown", part.strip()))
    return found


def _of_script(text: str) -> list[tuple[str, str]]:
    title, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    found = [("markdown", f"# {title}\n\n{rest.lstrip('=').strip()}")]
    for i, block in enumerate(re.split(r"^# %%.*\n", text, flags=re.MULTILINE)):
        if i == 0:
            block = block.split('"""', 2)[2]
        lines = block.strip().splitlines()
        said = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines)) if i else 0
        if said:
            found.append(("markdown", "\n".join(line.lstrip("# ") for line in lines[:said])))
        found.append(("code", "\n".join(lines[said:]).strip()))
    formulas = [
        (kind, re.sub(r":math:`([^`]*)`", r"$\1$", text) if kind == "markdown" else text) for kind, text in found
    ]
    return [cell for cell in formulas if cell[1]]


def run(found: list[tuple[str, str]]) -> list[list[dict[str, Any]]]:
    """What each cell prints and draws."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[list[dict[str, Any]]] = []
    with plt.style.context("splinescope.plot.house"):
        for kind, code in found:
            said = io.StringIO()
            if kind == "code":
                with contextlib.redirect_stdout(said):
                    exec(compile(code, "cell", "exec"), names)
            here: list[dict[str, Any]] = []
            if said.getvalue():
                here.append({"output_type": "stream", "name": "stdout", "text": said.getvalue()})
            for number in plt.get_fignums():
                picture = {"image/png": _png(plt.figure(number))}
                here.append({"output_type": "display_data", "metadata": {}, "data": picture})
            plt.close("all")
            outputs.append(here)
    return outputs


def _png(figure: Any) -> str:
    from PIL import Image

    stream, small = io.BytesIO(), io.BytesIO()
    figure.savefig(stream, dpi=80, bbox_inches="tight")
    with Image.open(stream) as image:
        image.convert("RGB").quantize(128).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def notebook(found: list[tuple[str, str]], outputs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    made, count = [], 0
    for number, ((kind, text), shown) in enumerate(zip(found, outputs, strict=True)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        if kind == "code":
            count += 1
            cell |= {"execution_count": count, "outputs": shown}
        made.append(cell)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def main(names: list[str]) -> None:
    for name in names or list(SOURCES):
        found = cells(name)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            outputs = run(found)
        text = json.dumps(notebook(found, outputs), indent=1, ensure_ascii=False) + "\n"
        (ROOT / "notebooks").mkdir(exist_ok=True)
        (ROOT / "notebooks" / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
