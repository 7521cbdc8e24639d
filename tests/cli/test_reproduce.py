"""`splinescope reproduce` where the experiments, a distribution of their own, are not installed."""

import sys

import pytest
from click.testing import CliRunner

from splinescope.cli import main


@pytest.fixture(autouse=True)
def without_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splinescope_evidence", None)  # as python marks what cannot be imported


@pytest.mark.parametrize("arguments", [["--list"], ["survey-fig8", "--quick"], ["--all"]])
def test_the_command_says_how_to_install_them(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert "pip install splinescope-evidence" in result.stderr
    assert "pip install -e evidence" in result.stderr
