"""Checks that several parts share: docstrings run, scripts draw, experiments come out as expected."""

from __future__ import annotations

import doctest
import importlib
import json
import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from splinescope import evidence
from splinescope.evidence._reproduce import _plain


def check_docstrings(module: str) -> None:
    """The examples in a module's docstrings exist and print what they say."""
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def check_script(script: Path) -> None:
    """A script of the gallery runs and draws something."""
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("sklearn")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with torch.random.fork_rng(devices=[]):
        runpy.run_path(str(script))
    drawn = [axes for number in pyplot.get_fignums() for axes in pyplot.figure(number).axes if axes.has_data()]
    pyplot.close("all")
    assert drawn, "the script drew nothing"


def check_verdicts(experiment_id: str, verdicts: Sequence[evidence.Verdict]) -> None:
    """An experiment at quick size comes to these verdicts, and its figure is drawn from the written numbers alone."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    experiment = evidence.find(experiment_id)
    outcome = experiment.run(size="quick", seed=0)
    assert [claim.verdict for claim in outcome.claims] == list(verdicts), outcome.claims
    figure = experiment.draw(json.loads(json.dumps(outcome.numbers, default=_plain)))
    assert all(ax.get_xlabel() or ax.get_ylabel() for ax in figure.axes)
    pyplot.close(figure)
