"""Every public result says in one line what it is, in words what it found, and whether it is exact."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.meanfield.manifold import Manifold
from splinescope.support.display import CERTAINTIES, Result, Shown, brief, in_words, table

# what is no answer, by the reason why it need not say how sure it is
NO_ANSWERS = {
    "made by the user and given": (
        *("Slice", "LogSpaced", "Every", "At", "Data", "GaussianInputs"),
        *("Manifold", "TwoLayer", "TwoLayerBN"),
        *("Box", "Ball", "Sphere", "Gaussian", "TruncatedGaussian"),
        *("Property", "Clause"),
    ),
    "the network itself, its program, or a network made of it": (*("SplineNetwork", "Program", "Interpolated"),),
    "a part of an answer that says it": ("Witness",),
    "a tool whose results say it": ("PolaritySampler", "MagnetSampler"),
}
EXEMPT = {name for names in NO_ANSWERS.values() for name in names}


def public_classes() -> list[type]:
    """Every class that a part lists and all that show themselves, but errors and modules of torch."""
    found = pkgutil.walk_packages(ss.__path__, "splinescope.")
    modules = [importlib.import_module(m.name) for m in found if not m.name.endswith("__main__")]
    named = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    shown = [thing for module in modules for thing in vars(module).values() if inspect.isclass(thing)]
    named += [c for c in shown if issubclass(c, Shown) and c not in (Shown, Result) and not c.__name__.startswith("_")]
    others = (BaseException, nn.Module)
    return list(dict.fromkeys(c for c in named if inspect.isclass(c) and not issubclass(c, others)))


def test_what_is_exempt_is_public_and_no_answer():
    kinds = {kind.__name__: kind for kind in public_classes()}
    assert len(EXEMPT) == sum(map(len, NO_ANSWERS.values()))
    for name in EXEMPT:
        assert not issubclass(kinds[name], Result), name
        assert not hasattr(kinds[name], "certainty"), name


@pytest.mark.parametrize("kind", [c for c in public_classes() if c.__name__ not in EXEMPT], ids=lambda c: c.__name__)
def test_every_public_result_says_how_sure_it_is(kind):
    assert issubclass(kind, Result) or kind is ss.Tiling  # whose summary is a result of its own
    stated = inspect.getattr_static(kind, "certainty", None)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    by_instance = isinstance(stated, property) or "certainty" in {f.name for f in fields}
    assert by_instance or stated in CERTAINTIES


# what a user neither gets as an answer nor looks into: arguments, protocols, and the small parts of what shows itself
PARTS_OF_OTHERS = {*("LogSpaced", "Every", "At"), *("Box", "Ball", "Sphere", "Gaussian", "TruncatedGaussian")}


@pytest.mark.parametrize("kind", public_classes(), ids=lambda c: c.__name__)
def test_every_public_class_has_a_line_a_summary_and_a_box_in_a_notebook(kind):
    if kind.__name__ in PARTS_OF_OTHERS:
        assert not issubclass(kind, Result)
        return
    for way in ("summary", "_repr_html_"):
        assert callable(getattr(kind, way, None)), way
    assert kind.__repr__ is not object.__repr__
    assert not kind.__repr__.__qualname__.startswith("__create_fn__")  # dataclass's own fills the screen


def results() -> dict[str, Result]:
    from splinescope import meanfield

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 2)).double()
    x = torch.randn(40, 2, dtype=torch.float64)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)
    generator = torch.Generator().manual_seed(0)
    data = meanfield.Data.of(x, x[:, 0], center="center")
    start = meanfield.TwoLayerBN(
        torch.zeros(8, dtype=torch.float64), torch.randn(8, 2, generator=generator, dtype=torch.float64), "tanh"
    )
    y = torch.randn(40, 2, dtype=torch.float64)
    moves = ss.landscape.random_directions(net, 2, layer="0", generator=generator)
    sampler = ss.PolaritySampler(net, ss.generative.Box(2), pool=32, progress=False)
    matrix = ss.curvature(net, x, y, layer="0")
    tiling = ss.tessellate(net, view, progress=False)
    return {
        "summary of a tiling": tiling.summary(),
        "two tilings": ss.compare_tilings(tiling, tiling),
        "check": tiling.check(),
        "boundary": tiling.decision_boundary(),
        "folds": tiling.folds(),
        "bends": tiling.bends(),
        "graph": tiling.dual_graph(),
        "raster": tiling.fold_raster(8),
        "margins": tiling.input_margin([[0.1, 0.2]]),
        "pieces": tiling.pieces(),
        "quantity": tiling.quantity("slope"),
        "surface": ss.loss_surface(net, x, y, moves, resolution=3, loss="squared"),
        "spectrum": ss.landscape.spectrum_summary(matrix),
        "free spectrum": ss.landscape.spectrum_summary(matrix, method="matrix-free", probes=4, generator=generator),
        "skips": ss.skip_conditioning(net, x[:2]),
        "path": ss.landscape.principal_directions(
            [{"w": w * torch.ones(2) + torch.tensor([0.0, w * w])} for w in (0.0, 1, 2)]
        ),
        "volumes": ss.log_volume(net, x),
        "samples": sampler.sample(3, rho=0.0),
        "pool": sampler.pool,
        "facets": ss.generative.tiled_manifold(tiling),
        "local": ss.generative.local_geometry(net, x),
        "frame": ss.local_complexity(net, x, radius=0.1),
        "distance": ss.local_complexity(net, x, radius=0.1, method="distance"),
        "robustness": ss.complexity.robustness(net, x, net(x).argmax(1), epsilons=0.1, steps=2, restarts=1, queries=2),
        "distances": ss.normalization.fold_distances(net, x),
        "report": ss.normalization_report(net, x),
        "geometry": ss.representation_geometry(net, x),
        "layer": ss.representation_geometry(net, x)[0],
        "trajectory": meanfield.flow(start, data, times=[0.0, 0.1]),
        "map": ss.local_map(net, x[:1]),
        "block of a map": ss.local_map(net, x[:1]).part(output=(0, 1)),
        "validity": ss.local_map(net, x[:1]).validity([0.1], directions=2),
        "tokens": ss.token_geometry(nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 2)), torch.randn(2, 3, 2)),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, Result]:
    return results()


def test_a_result_is_one_line_in_a_prompt_and_a_page_in_a_notebook(made):
    for name, result in made.items():
        line, words = repr(result), result.summary()
        assert "\n" not in line, name
        assert len(line) < 250, name
        assert type(result).__name__ in line, name
        assert max(map(len, words.splitlines())) < 260, name
        assert len(words.splitlines()) < 40, name
        assert result.certainty in CERTAINTIES, name
        assert f"({result.certainty})" in result._repr_html_(), name
        assert "<pre style='font-family:monospace" in result._repr_html_(), name


def test_summaries_of_a_tiling_add_up(made):
    """By sums of their own: the rows of a summary are of the whole result."""
    boundary, folds, graph = made["boundary"], made["folds"], made["graph"]
    rows = [line.split() for line in boundary.summary().splitlines()[1:-1]]
    assert sum(int(row[-2]) for row in rows[:-1]) == int(rows[-1][-2]) == len(boundary)
    assert sum(float(row[-1]) for row in rows[:-1]) == pytest.approx(boundary.length, rel=1e-4)
    rows = [line.split() for line in folds.summary().splitlines()[1:-1]]
    assert sum(int(row[1]) for row in rows[:-1]) == int(rows[-1][1]) == len(folds)
    assert float(rows[-1][-1]) == pytest.approx(folds.lengths.sum(), rel=1e-4)
    assert f"{len(graph.degrees)} tiles share {len(graph.edges)} borders" in graph.summary()


def tools(tmp_path) -> dict[str, object]:
    """What a user holds in hand besides results: parts of them, measures, networks, monitors, samplers."""
    from splinescope import generative, meanfield

    net = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 2), nn.Sigmoid()).double()
    x = torch.randn(40, 2, dtype=torch.float64)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)
    box = ss.Slice.axes([0.0] * 3, (0, 1, 2), -1, 1)
    plane, solid = ss.tessellate(net, view), ss.tessellate(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), box)
    monitor = ss.ComplexityMonitor(net, x, radius=0.1, out=tmp_path, budget=None)
    monitor.step(0)
    start = meanfield.TwoLayerBN(torch.zeros(8), torch.randn(8, 2), "tanh")
    covariance = torch.eye(2, dtype=torch.float64)
    return {
        "network": plane.network, "program": plane.frozen, "tiling": plane, "slice": view, "cells": plane.tiles,
        "walls": plane.walls, "facets": solid.walls, "polytopes": solid.tiles,
        "monitor": monitor, "fresh monitor": ss.landscape.CurvatureMonitor(net, x, x),
        "sampler": ss.PolaritySampler(net, generative.Box(2), pool=32),
        "magnet": ss.MagnetSampler(net, generative.Box(2)),
        "matrix": ss.curvature(net, x, x), "particles": start,
        "data": meanfield.Data.of(x, x[:, 0], center="center"), "population": ss.meanfield.GaussianInputs(covariance),
        "manifold": Manifold(covariance), "box": generative.Box(2), "sphere": generative.Sphere(2),
    }  # fmt: skip


def test_what_is_no_result_prints_in_one_line_too(tmp_path):
    held = tools(tmp_path)
    for name, thing in held.items():
        line = repr(thing)
        assert "\n" not in line, name
        assert len(line) < 250, name
        assert type(thing).__name__ in line, name
        assert " object at 0x" not in line, name
        assert "array(" not in line, name
        assert "tensor(" not in line, name
    for name in held.keys() - {"box", "sphere", "tiling"}:  # a tiling's summary is a result, with a line of its own
        words = held[name].summary()
        assert max(map(len, words.splitlines())) < 260, name
        assert len(words.splitlines()) < 40, name
        assert "<pre style='font-family:monospace" in held[name]._repr_html_(), name
    for name in ("cells", "walls", "facets", "polytopes", "monitor", "fresh monitor", "matrix"):
        thing = held[name]
        assert thing.certainty in CERTAINTIES, name
        assert f"({thing.certainty})" in thing._repr_html_(), name
        assert name == "fresh monitor" or re.search(r"[Ee]xact|bound|estimate", thing.summary()), name


def test_how_sure_a_count_is_depends_on_how_it_was_made(made):
    """A frame sees no fold that is not there; the linearized distance may err both ways."""
    assert [made[m].certainty for m in ("frame", "distance")] == ["bound", "estimate"]
    shallow = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 2)).double()
    one = ss.local_complexity(shallow, torch.zeros(3, 2, dtype=torch.float64), radius=0.1)
    assert one.certainty == "exact"  # one layer: the frame's cross-polytope is read exactly


def test_values_are_told_briefly():
    assert brief(np.zeros((3, 4))) == "float64[3, 4]"
    assert brief(torch.zeros(2)) == "float32[2]"
    assert brief(0.123456) == "0.1235"
    assert brief(list(range(100))) == "(100 items)"
    assert brief({"a": 1}) == "{1 entries}"
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"
    assert in_words(np.array([3.0, np.inf, 1.0, 2.0, 9.0])) == "float64[5], from 1 to 9, median 2.5, 1 not finite"
    assert in_words(torch.tensor([True, False])) == "bool[2], 0.5 of them true"
    assert in_words(np.arange(6)) == "int64[6], from 0 to 5"
    assert in_words(np.full(7, np.nan)) == "float64[7], none of them finite"
    assert in_words(np.array([0.25, 3])) == "(0.25, 3)"
