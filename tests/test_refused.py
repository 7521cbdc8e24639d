"""What is no model, and what is misspelt, is refused with what to do instead, everywhere in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope import landscape

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
X, Y = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)

TAKERS: dict[str, Callable[[Any], Any]] = {
    "trace": lambda m: ss.trace(m, X),
    "tessellate": lambda m: ss.tessellate(m, SQUARE),
    "pick_output": lambda m: ss.pick_output(m, 0),
    "report": lambda m: ss.report(m, X, Y, out=None, progress=False),
    "local_complexity": lambda m: ss.local_complexity(m, X),
    "representation_geometry": lambda m: ss.representation_geometry(m, X),
    "normalization_report": lambda m: ss.normalization_report(m, X),
    "curvature": lambda m: ss.curvature(m, X, Y, loss="cross_entropy"),
    "log_volume": lambda m: ss.log_volume(m, X),
    "local_map": lambda m: ss.local_map(m, X[:1]),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_parameters_or_a_path_in_place_of_a_model_name_how_to_get_one(taker):
    for given, advice in (
        (NET.state_dict(), r"load_state_dict\(given\)"),
        ({"epoch": 3, "model": NET.state_dict()}, r"load_state_dict\(given\['model'\]\)"),
        ("net.onnx", r"ss\.load\('net\.onnx'\)"),
        (Path("net.pt"), r"load_state_dict\(torch\.load\('net\.pt'\)\)"),
        (nn.Linear, r"give Linear\(\)"),
        (torch.relu, "forward of a torch.nn.Module"),
    ):
        with pytest.raises(ss.InputError, match=rf"model must be a torch\.nn\.Module.*got \w+: .*{advice}"):
            TAKERS[taker](given)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        (lambda: ss.tessellate(NET, SQUARE).quantity("slop"), "slope"),
        (lambda: ss.local_complexity(NET, X, method="fram"), "frame"),
        (lambda: ss.curvature(NET, X, Y, loss="crossentropy"), "cross_entropy"),
        (lambda: ss.curvature(NET, X, Y, kind="hesian"), "hessian"),
        (lambda: ss.report(NET, X, Y, include=["tile"]), "tiles"),
        (lambda: ss.meanfield.functions.as_loss("square"), "squared"),
        (lambda: ss.meanfield.functions.as_activation("rleu"), "relu"),
        (lambda: landscape.random_directions(NET, 1, layer="2.wieght"), "2.weight"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(misspelt, meant):
    with pytest.raises(ss.InputError, match=rf"did you mean '{meant}'\?$"):
        misspelt()


def test_a_misspelt_attribute_names_the_nearest_once():
    with pytest.raises(
        AttributeError, match=r"^splinescope has no attribute 'tesselate': did you mean 'tessellate'\?$"
    ):
        _ = ss.tesselate  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^splinescope has no attribute 'xyzzy'\.$"):
        _ = ss.xyzzy  # type: ignore[attr-defined]
