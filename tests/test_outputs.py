"""Models of several outputs: `pick_output` chooses one for every function that takes a model, and errors say so."""

import copy
import importlib
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope import complexity, generative, landscape, normalization, smooth, space
from splinescope.landscape.skips import find_skips
from splinescope.smooth.soften import Softened
from splinescope.support.evaluating import evaluating


class TwoHeads(nn.Sequential):
    """The last layer's outputs, and the features before it."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        *body, last = self
        for layer in body:
            x = layer(x)
        return {"features": x, "scores": last(x)}


def layers(norm: bool) -> list[nn.Module]:
    torch.manual_seed(0)
    first = [nn.Linear(3, 5), *([nn.BatchNorm1d(5)] if norm else []), nn.ReLU()]
    return [*first, nn.Linear(5, 2)]


NET = nn.Sequential(*layers(norm=False)).double().eval()
TWO = TwoHeads(*NET).double().eval()
NORMED = nn.Sequential(*layers(norm=True)).double().eval()
TWO_NORMED = TwoHeads(*NORMED).double().eval()
X = torch.randn(12, 3, dtype=torch.float64)
Y = torch.arange(12) % 2
TARGETS = torch.randn(12, 2, dtype=torch.float64)
VIEW = ss.Slice.through(X[0], X[1], X[2])
SOLID = ss.Slice.axes([0.0, 0.0, 0.0], (0, 1, 2), -1, 1)
BOX = generative.Box(3)
MOVES = landscape.random_directions(NET, 1, layer="0", generator=torch.Generator().manual_seed(0))[0]


def changed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a function that changes its model has made of a copy."""

    def run(model: Any) -> Any:
        model = copy.deepcopy(model)
        function(model)
        return [p.detach() for p in model.parameters()]

    return run


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def sampled(sampler: Any) -> Tensor:
    return sampler.sample(4).outputs


def monitored(make: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda model, x=X: (lambda monitor: (monitor.measure(0), monitor.records)[1])(make(model, x))


# function -> a call of it on a model (and data), and what it gives to compare; "+": on a model with batch norm
ONE: dict[str, Callable[..., Any]] = {
    "network trace": lambda m, x=X: ss.trace(m, x).program().forward(x),
    "tiling tessellate": lambda m: ss.tessellate(m, VIEW).vertices,
    "tiling tessellate_each": lambda m: ss.tiling.tessellate_each(m, [VIEW])[0].vertices,
    "tiling fold_census": lambda m, x=X: space.fold_census(m, x, radius=0.1, lines=4, generator=seeded()).summary(),
    "tiling level_set": lambda m: space.level_set(m, SOLID, 0.1).vertices,
    "complexity timeline": lambda m, x=X: complexity.timeline(
        m, {0: m.state_dict()}, VIEW, x={"a": x}, y={"a": Y}, radius=0.1
    ).summary(),
    "complexity robustness": lambda m, x=X: complexity.robustness(
        m, x, Y, epsilons=0.1, steps=2, restarts=1, queries=2, generator=seeded()
    ).summary(),
    "normalization fold_distances": lambda m: normalization.fold_distances(m, X).summary(),
    "normalization normalization_report": lambda m: ss.normalization_report(m, X).summary(),
    "normalization initialize_": changed(lambda m: ss.initialize_(m, X)),
    "normalization merge_batchnorm +": lambda m, x=X: list(normalization.merge_batchnorm(m, x).parameters()),
    "representation representation_geometry": lambda m, x=X: ss.representation_geometry(m, x).summary(),
    "representation representation_geometry hooks": lambda m: ss.representation_geometry(
        m, X, method="hooks"
    ).summary(),
    "smooth local_map": lambda m: ss.local_map(m, X[:1]).part().matrix(),
    "landscape curvature": lambda m, x=X: ss.curvature(m, x, TARGETS, layer="0").dense(),
    "landscape loss_surface": lambda m, x=X: ss.loss_surface(m, x, Y, MOVES, resolution=3).losses,
    "landscape skip_conditioning": lambda m, x=X: ss.skip_conditioning(m, x).summary(),
    "landscape find_skips": lambda m, x=X: find_skips(m, x),
    "landscape without_skips": lambda m, x=X: landscape.without_skips(m, x)(X),
    "landscape CurvatureMonitor": monitored(lambda m, x: landscape.CurvatureMonitor(m, x, TARGETS)),
    "generative log_volume": lambda m, x=X: ss.log_volume(m, x).log,
    "generative local_geometry": lambda m: generative.local_geometry(m, X[:2]).rank,
    "generative geometry_map": lambda m: generative.geometry_map(m, VIEW, resolution=2)[1].rank,
    "generative PolaritySampler": lambda m: sampled(ss.PolaritySampler(m, BOX, pool=64, top_k=2)),
    "generative MagnetSampler": lambda m: sampled(ss.MagnetSampler(m, BOX, pool=64, top_k=2)),
    "reports report": lambda m, x=X: [
        [block.title, block.numbers] for block in ss.report(m, x, Y, out=None, include=("folds", "complexity")).blocks
    ],
    "reports compare_models": lambda m, x=X: len(
        ss.compare_models({"a": m, "b": m}, x, Y, out=None, include=("folds",)).reports
    ),
}
# these look at what runs inside, whatever comes out
ANY: dict[str, Callable[..., Any]] = {
    "network pick_output": lambda m: list(ss.pick_output(m, "scores").parameters()),
    "network freeze_statistics": lambda m, x=X: list(ss.freeze_statistics(m, x).parameters()),
    "complexity local_complexity": lambda m, x=X: ss.local_complexity(m, x, radius=0.1).counts,
    "complexity ComplexityMonitor": monitored(lambda m, x: ss.ComplexityMonitor(m, x, radius=0.1)),
    "normalization with_statistics +": lambda m, x=X: list(normalization.with_statistics(m, x).buffers()),
    "smooth soften": lambda m: list(ss.soften(m, 0.5).parameters()),
    "smooth Softened": lambda m: list(Softened(m, 0.5, 0.5).parameters()),
    "smooth harden": lambda m: list(smooth.harden(ss.soften(m, 0.5)).parameters()),
    "smooth block": lambda m, x=X: smooth.block(m, "0", x).inputs,
    "smooth token_geometry": lambda m: ss.token_geometry(m, X[:, None]).means(),
    "landscape random_directions": lambda m: landscape.random_directions(m, 1, generator=seeded())[0]["0.weight"],
    "train evaluating": lambda m: evaluating(m).__enter__(),
    "tiling load_tiling": lambda m: None,
}
NOT_CALLED = {"network SplineNetwork", "smooth LocalMap", "train TrainingMonitor"}  # made by others
PARTS = ("network", "tiling", "train", "complexity", "normalization", "representation", "smooth", "landscape",
         "generative", "reports")  # fmt: skip


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(u, v) for u, v in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a if key != "seconds")
    if isinstance(a, (Tensor, np.ndarray, float)):
        a, b = (v.detach().numpy() if isinstance(v, Tensor) else v for v in (a, b))
        return np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-9, equal_nan=True)
    return bool(a == b)


@pytest.mark.parametrize("name", ONE)
def test_a_picked_output_is_measured_like_a_model_that_returns_nothing_else(name):
    alone, both = (NORMED, TWO_NORMED) if name.endswith("+") else (NET, TWO)
    want = ONE[name](alone)
    assert same(ONE[name](ss.pick_output(both, "scores")), want)
    with pytest.raises(ss.UnsupportedModelError, match=r"returns 2 tensors: features \(N?.*pick_output\(model, 'feat"):
        ONE[name](both)


@pytest.mark.parametrize("name", ANY)
def test_what_looks_inside_takes_models_of_any_outputs(name):
    alone, both = (NORMED, TWO_NORMED) if name.endswith("+") else (NET, TWO)
    assert same(ANY[name](both), ANY[name](alone))
    assert same(ANY[name](ss.pick_output(both, "scores")), ANY[name](alone))


def takes_a_model(thing: Any) -> bool:
    called = thing.__init__ if inspect.isclass(thing) else thing
    return inspect.isfunction(called) and bool({"model", "models"} & {*inspect.signature(called).parameters})


def test_every_public_function_of_a_model_is_among_them():
    tried = {" ".join(name.split()[:2]) for name in [*ONE, *ANY]} | NOT_CALLED
    for part in PARTS:
        module = importlib.import_module(f"splinescope.{part}")
        names = [name for name in module.__all__ if takes_a_model(getattr(module, name))]
        assert [name for name in names if f"{part} {name}" not in tried] == []


class Forked(nn.Module):
    """Two heads with folds of their own behind a common layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(3, 4)
        self.left = nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 1), nn.Sigmoid())
        self.right = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(), nn.Linear(6, 2))

    def forward(self, x: Tensor) -> tuple[None, dict[str, Tensor]]:
        z = self.body(x)
        return None, {"right": self.right(z), "left": self.left(z)}


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_folds_of_other_outputs_do_not_count(method):
    model = Forked().double()
    left, right = (ss.pick_output(model, f"1.{name}") for name in ("left", "right"))
    found = [ss.local_complexity(m, X[:3], radius=0.5, method=method).sites for m in (left, right)]
    assert [[site.path for site in sites] for sites in found] == [["left.1"], ["right.1"]]


def test_a_picked_model_is_the_model_itself_and_leaves_it_alone():
    model = nn.DataParallel(Forked().train())
    calls = []
    model.module.register_forward_hook(lambda module, args, out: calls.append(type(out)))
    picked = ss.pick_output(model, "1.left")
    assert model.training
    assert picked.training
    assert [*dict(picked.named_parameters())] == [*dict(model.module.named_parameters())]
    assert all(a is b for a, b in zip(picked.parameters(), model.parameters(), strict=True))
    picked.eval()
    assert not model.module.training
    assert not model.module.left.training
    model.module.train()
    assert picked.training
    x = X.float()
    torch.testing.assert_close(picked(x), model.module.eval()(x)[1]["left"])
    assert calls == [tuple]  # of the model itself; its picked output has no hooks
    with torch.no_grad():
        model.module.body.weight.zero_()
    torch.testing.assert_close(picked(x), model.module(x)[1]["left"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_a_picked_model_stands_on_its_own(copied):
    picked = ss.pick_output(TWO, "scores")
    other = copied(picked)
    torch.testing.assert_close(other(X), picked(X))
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert not torch.allclose(other(X), picked(X))
    torch.testing.assert_close(picked(X), NET(X))


@pytest.mark.parametrize(
    ("model", "output", "said"),
    [
        (TWO, None, "output must be an index or a name, got None"),
        (TWO, True, "output must be an index or a name, got True"),
        ("net.onnx", 0, "model must be a torch.nn.Module, got str: read the file first"),
    ],
)
def test_what_cannot_be_picked_is_refused(model, output, said):
    with pytest.raises(ss.InputError, match=said):
        ss.pick_output(model, output)


def test_an_output_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ss.InputError, match=r"features \(N, 5\), scores \(N, 2\); got 'boxes'"):
        ss.trace(ss.pick_output(TWO, "boxes"), X)
    with pytest.raises(ss.InputError, match=r"features \(1, 5\), scores \(1, 2\); got 'boxes'"):
        ss.curvature(ss.pick_output(TWO, "boxes"), X, TARGETS)
