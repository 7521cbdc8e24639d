"""What is given by mistake (no model, no tiling, a data set, a misspelled name) is refused with what to do instead."""

import copy
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import splinescope as ss
from splinescope import complexity, landscape, meanfield, normalization

pytest.importorskip("matplotlib").use("Agg")

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
NORMED = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
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
    ("misspelled", "meant"),
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
def test_a_misspelled_name_is_answered_with_the_nearest(misspelled, meant):
    with pytest.raises(ss.InputError, match=rf"did you mean '{meant}'\?$"):
        misspelled()


def test_a_misspelled_attribute_names_the_nearest_once():
    with pytest.raises(
        AttributeError, match=r"^splinescope has no attribute 'tesselate': did you mean 'tessellate'\?$"
    ):
        _ = ss.tesselate  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^splinescope has no attribute 'xyzzy'\.$"):
        _ = ss.xyzzy  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"^splinescope.tiling has no attribute .*: did you mean 'tessellate_each'"
    ):
        _ = ss.tiling.tessellate_eech  # type: ignore[attr-defined]


def taking_tilings() -> list[tuple[Any, str]]:
    """Public functions of every part whose first argument is a tiling."""
    found = []
    for part in ("tiling", "landscape", "generative", "plot"):
        module = importlib.import_module(f"splinescope.{part}")
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                first = next(iter(inspect.signature(function).parameters.values()), None)
                if first is not None and first.annotation == "Tiling":
                    found.append(pytest.param(function, first.name, id=f"{part}.{name}"))
    return found


@pytest.mark.parametrize(("function", "name"), taking_tilings())
def test_what_is_no_tiling_is_refused_by_name(function: Callable[..., Any], name: str, tmp_path) -> None:
    for given in (None, NET, "tiling.npz", ss.trace(NET, X)):
        others = [
            tmp_path / "page.html" if p.name == "path" else ["1"]
            for p in list(inspect.signature(function).parameters.values())[1:]
            if p.default is inspect.Parameter.empty
        ]
        with pytest.raises(ss.InputError, match=rf"^{name} must be a Tiling.*got {type(given).__name__}"):
            function(given, *others)
    assert not any(tmp_path.iterdir())


WRONG: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "initialize_ generator": (
        lambda g: ss.initialize_(copy.deepcopy(NET), X, method="quantile", generator=g),
        [0, "seed"],
    ),
    "initialize_ x": (lambda g: ss.initialize_(copy.deepcopy(NET), g), [np.array(["a", "b"]), 3, X * 1j]),
    "trainer_callback": (ss.train.trainer_callback, [None, "monitor", NET]),
    "lightning_callback": (ss.train.lightning_callback, [None, "monitor", NET]),
}
"""Function and argument: a call with what is given, and what it must refuse."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_refused_in_words(name: str) -> None:
    call, wrong = WRONG[name]
    for given in wrong:
        with pytest.raises(ss.InputError, match=r"\w+ .*got|\bmust\b|give either") as refused:
            call(given)
        assert "\n" not in str(refused.value) or isinstance(given, torch.Tensor)


REFUSING: dict[str, Callable[[Any], Any]] = {
    "trace": lambda d: ss.trace(NET, d),
    "Slice": lambda d: ss.Slice.segment(d, X[1]),
    "Tiling": lambda d: ss.tessellate(NET, SQUARE).locate(d),
    "local_complexity": lambda d: ss.local_complexity(NET, d),
    "robustness labels": lambda d: complexity.robustness(NET, X, d, epsilons=0.1, steps=1, restarts=1, queries=1),
    "ComplexityMonitor": lambda d: ss.ComplexityMonitor(NET, {"test": X, "train": d}),
    "with_statistics": lambda d: normalization.with_statistics(NORMED, d),
    "representation_geometry": lambda d: ss.representation_geometry(NET, d),
    "local_map": lambda d: ss.local_map(NET, d),
    "Data": lambda d: meanfield.Data.of(d, Y.double(), center="center"),
    "curvature targets": lambda d: ss.curvature(NET, X, d),
    "log_volume": lambda d: ss.log_volume(NET, d),
    "report targets": lambda d: ss.report(NET, X, d, out=None),
}
"""A call of each part with what it asks for: all of them read data by the same check."""
READING: dict[str, Callable[[Any], Any]] = {
    "token_geometry": lambda d: ss.token_geometry(NET, d),
    "fold_distances": lambda d: normalization.fold_distances(NET, d),
    "initialize_": lambda d: ss.initialize_(nn.Sequential(nn.Linear(2, 5), nn.ReLU()), d),
    "normalization_report": lambda d: ss.normalization_report(NET, d),
}


@pytest.mark.parametrize("name", REFUSING)
def test_a_dataset_or_loader_is_refused_in_one_sentence_that_says_what_to_do(name):
    both = TensorDataset(X, Y)
    for given in (both, DataLoader(both, 4), TensorDataset(X[:, :1])):  # torch reads the last one as numbers
        with pytest.raises(ss.InputError, match=rf"got {type(given).__name__}.*map\(torch.cat, zip") as refused:
            REFUSING[name](given)
        assert "\n" not in str(refused.value)
    with pytest.raises(ss.InputError):
        REFUSING[name](iter(X))


@pytest.mark.parametrize("name", READING)
def test_what_goes_through_data_in_blocks_reads_a_loader(name):
    READING[name](DataLoader(TensorDataset(X, Y), 4))
    with pytest.raises(ss.InputError, match=r"map\(torch.cat"):
        READING[name](TensorDataset(X, Y))
