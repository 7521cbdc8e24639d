"""Bad input gets a clear error; a limit or an interruption leaves nothing half-true and nothing changed."""

import _thread
import signal
import threading
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.network.watching.undisturbed import HookWarning

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


def network(width: int = 16) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_named(value: float) -> None:
    model = network()
    model[2].bias.data[3] = value
    with pytest.raises(ss.SplinescopeError, match=r"2\.bias"):
        ss.tessellate(model, SQUARE)


def test_slice_of_another_size_is_refused_with_both_shapes() -> None:
    with pytest.raises(ss.InputError, match=r"\(2,\).*\(3,\)"):
        ss.tessellate(ss.trace(network(), torch.zeros(2, 2)), ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1, 1))


def test_slice_that_the_model_cannot_take_is_named_as_the_reason() -> None:
    with pytest.raises(ss.InputError, match=r"slice's inputs, of shape \(3,\)"):
        ss.tessellate(network(), ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1, 1))


def test_train_mode_batch_norm_is_refused_and_left_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    before = model[1].running_mean.clone()
    with pytest.raises(ss.SplinescopeError, match=r"eval"):
        ss.tessellate(model, SQUARE)
    assert model.training
    assert model[1].training
    assert torch.equal(before, model[1].running_mean)


def test_all_layers_that_are_not_piecewise_affine_are_named_at_once() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 4), nn.LayerNorm(4), nn.SiLU(), nn.Linear(4, 1))
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ss.tessellate(model, SQUARE)
    for word in ("gelu", "layer_norm", "silu"):
        assert word in str(caught.value).lower()


@pytest.mark.parametrize("layer", [0, 2, -1])
def test_network_whose_output_is_constant_is_refused(layer: int) -> None:
    model = network()
    with torch.no_grad():
        model[layer].weight.zero_()
    with pytest.raises(ss.InputError, match=r"depend on its input.*constant"):
        ss.tessellate(model, SQUARE)


def test_weights_that_are_tiny_beside_the_biases_still_count() -> None:
    model = network()
    with torch.no_grad():
        model[-1].weight.mul_(1e-30)
    assert ss.tessellate(model, SQUARE).count == ss.tessellate(network(), SQUARE).count


@pytest.mark.parametrize("op", [torch.relu, torch.abs, lambda x: x.clamp(max=-1.0), lambda x: torch.minimum(x, -x)])
def test_values_that_pass_a_fold_on_one_side_only_still_depend_on_the_input(op) -> None:  # type: ignore[no-untyped-def]
    class Folded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(x)  # type: ignore[no-any-return]

    assert ss.tessellate(Folded(), SQUARE).count > 1


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ([[0, 0], [1, 0], [0, np.nan]], "finite"),
        ([[0, 0], [0, 1], [1, 0]], "counter-clockwise"),
        ([[0, 0], [1, 0], [2, 0]], "area"),
        ([[0, 0], [2, 0], [2, 2], [1, 0.5]], "convex"),
        ([[0, 0], [1, 1], [1, 0], [0, 1.5]], "convex|counter"),
        ([[0, 0], [1, 0]], "3 corners"),
        ([[0, 0], [1, 0], [1, 0], [0, 1]], "repeat"),
    ],
)
def test_domains_that_are_no_convex_polygons_are_refused(domain: list[list[float]], words: str) -> None:
    with pytest.raises(ss.InputError, match=words):
        ss.Slice([0.0, 0.0], np.eye(2), domain)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ss.Slice.through([0.0, 0.0], [1.0, 1.0], [2.0, 2.0]), "zero area"),
        (lambda: ss.Slice.through([0.0, 0.0], [0.0, 0.0], [2.0, 2.0]), "p0 and p1 are equal"),
        (lambda: ss.Slice.through([0.0, 0.0], [1.0, 0.0], [2.0, 2.0, 3.0]), "one shape"),
        (lambda: ss.Slice.through([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], shape="disc"), "square"),
        (lambda: ss.Slice.segment([1.0], [1.0]), "different points"),
        (lambda: ss.Slice.box([0.0, np.inf]), "finite"),
        (lambda: ss.Slice.box([0.0, 0.0], half_width=0.0), "half_width"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 0), -1, 1), "different"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 2), -1, 1), "indices"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 1), [1, 2, 3], 4), "one per axis"),
        (lambda: ss.Slice.box([0.0, 0.0], [], 1.0), "directions"),
        (lambda: ss.Slice.box([0.0, 0.0], generator=np.random.default_rng(0)), "torch.Generator"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 1), 1, -1), "below"),
        (lambda: ss.Slice([0.0, 0.0], [[1.0, 0.0], [2.0, 0.0]], [[0, 0], [1, 0], [0, 1]]), "independent"),
        (lambda: ss.Slice([0.0, 0.0], [[1.0, 0.0]], [1.0, 0.0]), "left < right"),
        (lambda: ss.Slice(None, np.eye(2), [[0, 0], [1, 0], [0, 1]]), "origin must be numbers .* got None"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 1), -1e200, 1e200), "low must have numbers up to 1e100, got 1e.200"),
        (lambda: ss.Slice.axes([0.0, 0.0], (0, 1), 0, 1e-200), "sides of domain .* from 1e-100 to 1e100, got 1e-200"),
        (lambda: ss.Slice.segment([0.0], [1e-200]), "distance of a and b .* scale the inputs"),
        (lambda: ss.Slice.through([0.0, 0.0], [1e-200, 0.0], [0.0, 1e-200]), "a direction of the slice"),
        (lambda: ss.Slice.through([0.0, 0.0], [1e308, 0.0], [0.0, -1e308]), "p1 must have numbers up to 1e100"),
        (lambda: ss.Slice([0.0, 0.0], 1e-200 * np.eye(2), [[0, 0], [1, 0], [0, 1]]), "rows of basis"),
        (lambda: ss.Slice.through([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], pad=1e200), "pad must be a number"),
        (lambda: ss.Slice([0.0, 0.0], np.eye(2), [[0, 0], [1, 0], [0, 1]], [[1, 2, 3]]), "anchors must have shape"),
        (lambda: ss.Slice([], [], []), "at least one number"),
    ],
)
def test_slices_that_are_none_are_refused(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ss.InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rtol": -1.0}, "rtol"),
        ({"max_tiles": 0}, "max_tiles"),
        ({"threads": 0}, "threads"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"chunk_bytes": 1.5}, "chunk_bytes"),
        ({"progress": 3}, "progress must be True, False, None or a function, got 3"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, float], words: str) -> None:
    with pytest.raises(ss.InputError, match=words):
        ss.tessellate(network(), SQUARE, **options)  # type: ignore[arg-type]


def test_things_that_are_no_models_or_slices_are_refused() -> None:
    with pytest.raises(ss.InputError, match=r"torch\.nn\.Module"):
        ss.tessellate("model.onnx", SQUARE)  # type: ignore[arg-type]
    with pytest.raises(ss.InputError, match="Slice"):
        ss.tessellate(network(), np.zeros((4, 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: t.level_set(0.0, -1), r"output must be in \[0, 2\), got -1"),
        (lambda t: t.level_set([0.0, 1.0]), "value must be one number"),
        (lambda t: t.output_ranges(-1), r"output must be in \[0, 2\)"),
        (lambda t: t.quantity("value", output=-1), r"output must be in \[0, 2\)"),
        (lambda t: t.fold_raster(depth=9), "depth must be None or one of the layers \\[1, 2\\], got 9"),
        (lambda t: t.fold_raster(cells=0), "cells must be a whole number from 1 to 16384, got 0"),
        (lambda t: t.decision_boundary().sample(-1), "count must be a whole number >= 0, got -1"),
        (lambda t: t.decision_boundary().sample(2, generator=np.random.default_rng(0)), "torch.Generator"),
        (lambda t: t.density_near([[0.0, 0.0]], "near"), "radius must be a positive number"),
        (lambda t: t.save("."), "cannot be written: it is a folder"),
        (lambda t: t.save(None), "must be a file name, got NoneType"),
        (lambda t: t.pieces(rtol=None), "rtol must be a positive number"),
    ],
)
def test_questions_that_make_no_sense_are_refused_in_words(ask, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ss.InputError, match=words):
        ask(small_tiling())


@cache
def small_tiling() -> ss.Tiling:
    return ss.tessellate(network(), SQUARE)


def test_a_tiling_cannot_be_changed_by_accident() -> None:
    tiling = ss.tessellate(network(), SQUARE)
    for array in (tiling.vertices, tiling.values, tiling.tiles.corners):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(("dimension", "threads"), [(2, 1), (2, 2), (3, 2)])
def test_an_interruption_passes_through_and_leaves_the_global_state_as_it_was(dimension: int, threads: int) -> None:
    torch.manual_seed(0)
    width = {2: 512, 3: 96}[dimension]
    layers = [nn.Linear(dimension, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)]
    model, torch_threads = nn.Sequential(*layers), torch.get_num_threads()
    traced = ss.trace(model, torch.zeros(2, dimension))
    origin, axes = np.zeros(dimension), tuple(range(dimension))
    ss.tessellate(traced, ss.Slice.axes(origin, axes, -0.1, 0.1))  # kernels are loaded
    state = torch.get_rng_state()
    seen = threading.Event()

    def progress(share: float, now: str) -> None:
        seen.set()

    def interrupt() -> None:
        seen.wait(240)
        _thread.interrupt_main()

    helper = threading.Thread(target=interrupt)
    helper.start()

    def work() -> None:
        view = ss.Slice.axes(origin, axes, -3.0, 3.0)
        ss.tessellate(traced, view, progress=progress, threads=threads, chunk_bytes=1 << 20)
        helper.join()  # the interruption may come a moment after the last tile

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # parallel test processes ignore Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGINT, before)
    helper.join()
    assert torch.get_num_threads() == torch_threads
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()


def test_the_model_is_left_as_it_was() -> None:
    model = network().train()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    calls: list[int] = []
    handle = model[1].register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    with pytest.warns(HookWarning):
        ss.tessellate(model, SQUARE)
    assert model.training
    assert calls == []
    model(torch.zeros(1, 2))
    assert calls == [1]
    handle.remove()
    assert torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight))
    assert model[0].weight.dtype == torch.float32
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_default_dtype() == dtype
