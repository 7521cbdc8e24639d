"""Adding an experiment takes one file."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import splinescope
from splinescope_evidence.framework.registry import ROOT

TOY = '''"""A sum of two odd numbers is even."""

from typing import Any

from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    odd = sum((2 * i + 1 + 2 * j + 1) % 2 for i in range(9) for j in range(9))
    line = Check("odd sums", odd, "<", 0.5, "there is none")
    return Outcome({"odd": odd}, (judged("Sums of odd numbers are even.", f"{odd} odd sums", holds=[line]),))


def draw(numbers: dict[str, Any]) -> Figure:
    figure, ax = pyplot.subplots()
    ax.bar(["odd"], [numbers["odd"]])
    ax.set_ylabel("sums")
    return figure


EXPERIMENT = Experiment("Sums of odd numbers", run, draw)
'''


def test_a_claim_of_ones_own_is_one_file(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / ROOT.name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / ROOT.name / "own" / "odd_sums.py").write_text(TOY)
    paths = os.pathsep.join([str(tmp_path), str(Path(splinescope.__file__).parents[1])])
    command = [sys.executable, "-m", "splinescope", "reproduce", "own-odd-sums", "--out", "found"]
    run = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "own-odd-sums: holds: Sums of odd numbers are even. (0 odd sums)\n"
    assert "Claims of our own" in (tmp_path / "found" / "index.html").read_text()
    assert (tmp_path / "found" / "own-odd-sums.png").stat().st_size > 1000


def test_a_folder_has_about_twenty_files_and_says_what_it_is() -> None:
    for init in [*ROOT.rglob("__init__.py"), *(ROOT.parent / "splinescope_research").rglob("__init__.py")]:
        assert ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))), f"{init} does not say what it is"
        assert len(list(init.parent.glob("*.py"))) <= 25, f"{init.parent.name} has too many files"
