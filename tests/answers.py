"""The figures of docs/open_questions, from the script that draws them."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the plot extra is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from make_answers import FIGURES as FIGURES
