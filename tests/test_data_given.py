"""Whatever asks for data refuses a Dataset or a loader in one sentence, which says how to collect it, or reads it."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import splinescope as ss
from splinescope import complexity, generative, landscape, meanfield, normalization, representation, research, smooth
from splinescope.generative.training import train_vae
from splinescope.normalization.fold_distances import point_distances
from splinescope.representation.full_rank import new_direction_probability
from splinescope.representation.invariant import sample_odd_point_step
from splinescope.representation.tree import tree_gram

from .test_outputs import ANY, NET, NORMED, ONE, VIEW, X, Y

FLAT = ss.tessellate(
    nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
)
CLASSES = representation.sign_classes(X[:4, :2])

# what asks for data -> a call of it with that data; the third word where one function takes data in two places
REFUSING: dict[str, Callable[[Any], Any]] = {
    **{
        name.removesuffix(" +"): partial(call, NORMED if name.endswith("+") else NET)
        for name, call in (ONE | ANY).items()
        if "x" in inspect.signature(call).parameters
    },
    "network SplineNetwork": lambda d: ss.trace(NET, X)(d),
    "tiling Slice": lambda d: ss.Slice.through(d, X[1], X[2]),
    "tiling Tiling": lambda d: FLAT.locate(d),
    "tiling Tiling margin": lambda d: FLAT.input_margin(d),
    "complexity data_spacing": lambda d: complexity.data_spacing(d),
    "complexity local_complexity auto": lambda d: ss.local_complexity(NET, d),
    "complexity robustness labels": lambda d: complexity.robustness(
        NET, X, d, epsilons=0.1, steps=1, restarts=1, queries=1
    ),
    "complexity ComplexityMonitor sets": lambda d: ss.ComplexityMonitor(NET, {"test": X, "train": d}),
    "complexity ComplexityMonitor from": lambda d: ss.ComplexityMonitor(NORMED, X, radius=0.1, statistics_from=d),
    "normalization boundary_jitter points": lambda d: normalization.boundary_jitter(NORMED, X, 4, VIEW, d, draws=1),
    "normalization compare_normalizations": lambda d: normalization.compare_normalizations(
        d, VIEW, depth=1, width=4, cells=4
    ),
    "normalization merge_batchnorm_": lambda d: normalization.merge_batchnorm_(copy.deepcopy(NORMED), x=d),
    "normalization merge_batchnorm_ from": lambda d: normalization.merge_batchnorm_(
        copy.deepcopy(NORMED), statistics=d
    ),
    "representation sign_classes": lambda d: ss.representation.sign_classes(d),
    "representation full_rank_width": lambda d: ss.representation.full_rank_width(d, draws=2),
    "representation new_direction_probability": lambda d: new_direction_probability(
        d, [[1.0, 0.0]], CLASSES
    ),
    "representation odd_point_step": lambda d: ss.representation.odd_point_step(d),
    "representation one_unit_per_point_": lambda d: ss.representation.one_unit_per_point_(nn.Linear(3, 20), d),
    "representation sample_odd_point_step": lambda d: sample_odd_point_step(d, 4, 2),
    "representation tree_gram": lambda d: tree_gram(d, 2),
    "smooth local_map": lambda d: ss.local_map(NET, d),
    "smooth boundary_curvature": lambda d: smooth.boundary_curvature(NET, d),
    "smooth steer labels": lambda d: ss.smooth.steer(NET, X, d, epsilon=0.1, betas=(1.0,)),
    "meanfield Data": lambda d: meanfield.Data.of(d, Y.double(), center="center"),
    "meanfield Data targets": lambda d: meanfield.Data.of(X, d, center="center"),
    "landscape curvature targets": lambda d: ss.curvature(NET, X, d),
    "landscape depth_profile targets": lambda d: research.depth_profile(NET, X, d),
    "landscape CurvatureMonitor targets": lambda d: landscape.CurvatureMonitor(NET, X, d),
    "generative local_geometry": lambda d: ss.generative.local_geometry(NET, d),
    "generative class_histogram": lambda d: generative.class_histogram(d, NET),
    "generative fidelity": lambda d: generative.fidelity(d, X, k=2),
    "generative fidelity samples": lambda d: generative.fidelity(X, d, k=2),
    "generative frechet_distance": lambda d: generative.frechet_distance(d, X),
    "generative train_vae": lambda d: train_vae(d, epochs=1),
    "reports report targets": lambda d: ss.report(NET, X, d, out=None),
}  # fmt: skip
READING: dict[str, Callable[[Any], Any]] = {
    "smooth token_geometry": lambda d: ss.token_geometry(NET, d),
    "normalization point_distances": lambda d: point_distances(NET, d),
    "normalization fold_distances": lambda d: normalization.fold_distances(NET, d),
    "normalization initialize_": lambda d: ss.initialize_(nn.Sequential(nn.Linear(3, 5), nn.ReLU()).double(), d),
    "normalization normalization_report": lambda d: ss.normalization_report(NET, d),
}
PARTS = ("network", "tiling", "complexity", "normalization", "representation", "smooth", "meanfield", "landscape",
         "generative", "reports")  # fmt: skip
ASKING = {"x", "data", "points", "batch", "z", "images", "samples", "real"}  # how arguments for data are called
OTHERWISE = {  # same word, other thing
    "meanfield certificate", "meanfield convergence_study", "meanfield density_flow", "meanfield descend",
    "meanfield first_step", "meanfield first_variation", "meanfield flow", "meanfield learning_rate_study",
    "meanfield speed_by_direction", "meanfield speed_by_length",  # a meanfield.Data
    "generative train_planar_wgan",  # a function that draws
    "smooth softened_relu",  # an argument of a function
    "smooth entropy_map",  # rows at once
}  # fmt: skip


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


def test_every_public_function_that_asks_for_data_is_among_them():
    tried = {" ".join(name.split()[:2]) for name in [*REFUSING, *READING]} | OTHERWISE
    for part in PARTS:
        module = importlib.import_module(f"splinescope.{part}")
        for name, thing in inspect.getmembers(module, inspect.isfunction):
            if thing.__module__.startswith("splinescope") and ASKING & {*inspect.signature(thing).parameters}:
                assert f"{part} {name}" in tried
