"""What is no model, and what is misspelt, is refused with what to do instead, everywhere in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope import complexity, generative, landscape, normalization, smooth

from .test_door import PARTS

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
X, Y = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)

TAKERS: dict[str, Callable[[Any], Any]] = {
    "trace": lambda m: ss.trace(m, X),
    "tessellate": lambda m: ss.tessellate(m, SQUARE),
    "pick_output": lambda m: ss.pick_output(m, 0),
    "report": lambda m: ss.report(m, X, Y, out=None, progress=False),
    "local_complexity": lambda m: ss.local_complexity(m, X),
    "exact complexity": lambda m: ss.local_complexity(m, X, method="exact"),
    "robustness": lambda m: complexity.robustness(m, X, Y, epsilons=[0.1]),
    "timeline": lambda m: complexity.timeline(m, {}, SQUARE, x={"train": X}, radius=0.1),
    "monitor": lambda m: complexity.ComplexityMonitor(m, X),
    "representation_geometry": lambda m: ss.representation_geometry(m, X),
    "normalization_report": lambda m: ss.normalization_report(m, X),
    "curvature": lambda m: ss.curvature(m, X, Y, loss="cross_entropy"),
    "random_directions": lambda m: landscape.random_directions(m, 2),
    "log_volume": lambda m: ss.log_volume(m, X),
    "MagnetSampler": lambda m: generative.MagnetSampler(m, generative.Box(2)),
    "local_map": lambda m: ss.local_map(m, X[:1]),
    "token_geometry": lambda m: ss.token_geometry(m, X[None]),
    "block": lambda m: smooth.block(m, "0", X),
    "fold": lambda m: normalization.fold_distances(m, X),
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


def test_what_is_refused_as_a_model_is_said_in_one_place():
    source = Path(ss.__file__).parent
    saying = [p.name for p in source.rglob("*.py") if "must be a torch.nn.Module," in p.read_text(encoding="utf-8")]
    assert saying == []


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


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"cli"}))
def test_a_misspelt_attribute_of_a_part_names_the_nearest(part):
    module = getattr(ss, part)
    name = max(module.__all__, key=len)
    with pytest.raises(
        AttributeError, match=rf"^splinescope\.{part} has no attribute '{name}z': did you mean '{name}'\?$"
    ):
        getattr(module, f"{name}z")


def test_a_builder_of_other_arguments_is_refused_before_the_work():
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    with pytest.raises(ss.InputError, match=r"build must take \(width, depth, seed\), got a function of \(width\)"):
        ss.tiling.sweep_tiles(view, widths=(4,), build=lambda width: NET)


def test_shapes_in_errors_have_no_symbols_of_torch():
    with pytest.raises(ss.UnsupportedModelError, match=r"\[N, 2\] X \[5, 3\]"):
        ss.trace(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), X)
