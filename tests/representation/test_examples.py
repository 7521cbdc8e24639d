"""The examples in the docstrings and under examples/ run and say what they print."""

from pathlib import Path

import pytest

from tests.checks import check_docstrings, check_script

MODULES = ["gamma", "full_rank", "geometry", "gram", "invariant", "layers", "one_unit_per_point", "tree"]
SCRIPTS = sorted((Path(__file__).parents[2] / "examples" / "representation").glob("plot_*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    check_docstrings(f"splinescope.representation.{name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(script: Path) -> None:
    check_script(script)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 3
