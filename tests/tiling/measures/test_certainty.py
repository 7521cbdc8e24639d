"""What is read off a tiling is no surer than the tiling: exact only where the tiled network is the model itself."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.support.display import Result
from splinescope.tiling import Tiling
from splinescope.tiling.approximation import TilingResult

READ: dict[str, Callable[[Tiling], Any]] = {
    "boundary": lambda t: t.decision_boundary(),
    "level set": lambda t: t.level_set(0.0),
    "pieces": lambda t: t.pieces(),
    "dual graph": lambda t: t.dual_graph(),
    "folds": lambda t: t.folds(),
    "bends": lambda t: t.bends(),
    "raster": lambda t: t.fold_raster(8),
    "quantity": lambda t: t.quantity("slope"),
    "summary": lambda t: t.summary(),
    "check": lambda t: t.check(),
    "comparison": lambda t: ss.compare_tilings(t, t),
}


def tiled(activation: nn.Module, dimension: int = 2, tolerance: float | None = 0.1) -> Tiling:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(dimension, 4), activation, nn.Linear(4, 3), activation, nn.Linear(3, 2)).double()
    view = ss.Slice.axes([0.0] * dimension, tuple(range(dimension)), -2, 2)
    return ss.tessellate(net, view, tolerance=tolerance, threads=1, progress=False)


@pytest.fixture(scope="module")
def smooth() -> Tiling:
    return tiled(nn.Tanh())


@pytest.fixture(scope="module")
def folded() -> Tiling:
    return tiled(nn.ReLU(), tolerance=None)


def test_a_tiling_is_exact_unless_it_stands_for_a_smooth_network(smooth, folded):
    assert folded.certainty == "exact"
    assert tiled(nn.ReLU(), tolerance=0.1).certainty == "exact"  # a tolerance that nothing needed
    assert smooth.certainty == smooth.approximation.certainty == "bound"
    assert "(exact)" in folded._repr_html_()
    assert "(bound)" in smooth._repr_html_()


@pytest.mark.parametrize("name", READ)
def test_a_result_is_as_sure_as_its_tiling(name, smooth, folded):
    sure, near = READ[name](folded), READ[name](smooth)
    assert sure.certainty == "exact"
    assert near.certainty == smooth.certainty
    assert "not of that one itself" in near.assurance
    assert "not of that one itself" not in sure.summary()
    assert "not of that one itself" in near.summary()
    assert "xact" not in near.summary() + repr(near)


def test_a_mesh_and_its_parts_are_as_sure_as_their_tiling():
    for tiling, certainty in ((tiled(nn.Tanh(), 3, 0.3), "bound"), (tiled(nn.ReLU(), 3, None), "exact")):
        mesh = tiling.decision_boundary()
        assert tiling.certainty == certainty
        assert {mesh.certainty, mesh.around(0).certainty} == {certainty}
        assert repr(mesh).endswith(f"{certainty})")


def test_the_weaker_of_two_tilings_decides_their_comparison(smooth, folded):
    assert ss.compare_tilings(folded, smooth).certainty == ss.compare_tilings(smooth, folded).certainty == "bound"


def test_margins_within_a_tolerance_are_estimates_and_marked_as_exact_nowhere(smooth, folded):
    points = folded.decision_boundary().segments.mean(1)[:3]
    assert folded.input_margin(points).exact_edge
    assert folded.input_margin(points).exact.any()
    found = smooth.input_margin(smooth.decision_boundary().segments.mean(1))
    assert found.certainty == "estimate"
    assert not found.exact_edge
    assert not found.exact.any()


def kinds_of(kind: type) -> set[type]:
    """Its subclasses among tilings, and theirs."""
    found = {k for sub in kind.__subclasses__() for k in {sub, *kinds_of(sub)}}
    return {k for k in found if k.__module__.startswith("splinescope.tiling.")}


def test_every_kind_of_result_of_a_tiling_carries_its_certainty():
    """Those that methods of a tiling are declared to return: a new one cannot be forgotten."""
    read = [getattr(Tiling, name) for name in dir(Tiling)]
    plain = [getattr(item, "fget", None) or getattr(item, "func", None) or item for item in read]
    declared = " ".join(str(getattr(item, "__annotations__", {}).get("return")) for item in plain)
    every = {kind for kind in kinds_of(Result) if re.search(rf"\b{kind.__name__}\b", declared)}
    assert {"Boundary", "Pieces", "Folds", "Summary", "Bends"} <= {kind.__name__ for kind in every}
    assert {kind.__name__ for kind in every if not issubclass(kind, TilingResult)} == {
        "InputMargin"
    }  # has its own words


def test_a_manifold_is_as_sure_as_its_tiling(smooth, folded):
    assert ss.generative.tiled_manifold(folded).certainty == "exact"
    assert ss.generative.tiled_manifold(smooth).certainty == "bound"
