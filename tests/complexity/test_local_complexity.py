"""Any module can be measured, is left as found, what does not fit is named, and "auto" follows the data."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import splinescope as ss
from splinescope.complexity import local_complexity
from splinescope.complexity.neighborhoods import random_frame
from splinescope.network.watching.undisturbed import HookWarning

from .models import CASES, Residual, TinyTransformer, case, mlp


def test_functional_activations_are_found_and_a_clamp_has_two_units_per_element() -> None:
    model = Residual()
    x = torch.randn(5, 6)
    found = local_complexity(model, x, radius=0.5, directions=6)
    assert [(s.op, s.units) for s in found.sites] == [("relu", 6), ("clamp", 12)]
    frame = random_frame(6, (6,)).float()
    vertices = (x[:, None] + 0.5 * torch.cat([frame, -frame])).detach()
    z1 = model.one(vertices)
    z2 = model.two(vertices + z1.relu())
    changes = lambda z: ((z > 0).any(1) & ~(z > 0).all(1)).sum(-1)  # noqa: E731
    assert torch.equal(found.counts[:, 0], changes(z1))
    assert torch.equal(found.counts[:, 1], changes(z2 + 0.5) + changes(z2 - 0.5))


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("method", ["frame", "distance"])
def test_any_module_can_be_measured_and_is_left_as_found(name: str, method: str) -> None:
    model, shape = case(name)
    model.float().train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm | nn.modules.dropout._DropoutNd | nn.RReLU):
            module.eval()  # in training they are refused
    state = {k: v.clone() for k, v in model.state_dict().items()}
    next(iter(model.children())).eval()
    flags = [m.training for m in model.modules()]
    calls: list[int] = []
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    random = torch.get_rng_state()
    points = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    with pytest.warns(HookWarning):
        found = local_complexity(model, points, radius=0.2, method=method)
    handle.remove()
    assert torch.equal(torch.get_rng_state(), random)
    assert calls == []
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.is_grad_enabled()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not nn.modules.module._global_forward_hooks
    assert found.counts.shape == (3, len(found.sites))
    assert all(p.grad is None for p in model.parameters())


def test_an_exported_module_is_measured_as_the_one_it_was_made_from() -> None:
    """It calls overloads of ATen, and refuses eval()."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 3, 3), nn.ReLU6(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4), nn.GELU())
    model, x = nn.Sequential(*layers, nn.Linear(4, 2)).eval(), torch.randn(6, 1, 6, 6)
    free = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(model, (x[:2],), dynamic_shapes=free).module()
    for method in ("frame", "distance"):
        found, expected = (local_complexity(m, x, radius=0.5, method=method) for m in (exported, model))
        assert torch.equal(found.counts, expected.counts)
        assert [site.op for site in found.sites] == [site.op for site in expected.sites]


def test_nothing_that_a_model_does_on_eval_is_done_to_it() -> None:
    class Adapted(nn.Linear):
        """Merges its adapter when it is put into evaluation, as adapters of transformers do."""

        def train(self, mode: bool = True) -> nn.Module:
            if not mode:
                self.weight.data += 1
            return super().train(mode)

    model = nn.Sequential(Adapted(2, 4), nn.ReLU())
    before = model[0].weight.clone()
    local_complexity(model, torch.randn(3, 2), radius=0.1)
    assert torch.equal(model[0].weight, before)
    assert model.training


def test_the_gate_of_a_swiglu_block_is_its_site() -> None:
    found = local_complexity(TinyTransformer().eval(), torch.randn(2, 4, 8), radius=0.5)
    assert [(s.op, s.units) for s in found.sites] == [("silu", 4 * 16)]


def test_a_last_sigmoid_is_an_ending_and_an_inner_one_a_site() -> None:
    inner = nn.Sequential(nn.Linear(2, 4), nn.Sigmoid(), nn.Linear(4, 1), nn.Sigmoid())
    assert [s.path for s in local_complexity(inner, torch.randn(2, 2), radius=1.0).sites] == ["1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": 0.0}, "radius must be a positive"),
        ({"radius": 1.0, "method": "magic"}, "method must be one of"),
        ({"radius": "big"}, "radius must be a positive number or 'auto'"),
        ({"radius": 1.0, "directions": 4}, "between 1 and the input size 3"),
        ({"radius": 1.0, "directions": 1.5}, "whole number"),
        ({"radius": 1.0, "generator": 0}, "generator must be a torch.Generator"),
        ({"radius": 1.0, "directions": torch.ones(2, 3)}, "orthonormal"),
        ({"radius": 1.0, "directions": torch.ones(2, 4)}, r"shape \(P, 3\)"),
        ({"radius": 1.0, "directions": 2, "method": "distance"}, "belong to"),
        ({"radius": 1.0, "chunk_bytes": 0}, "chunk_bytes"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 3), **arguments)


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_layers_that_act_differently_in_training_are_refused_there(method: str) -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ss.UnsupportedModelError, match=r"1 \(BatchNorm1d\), 3 \(Dropout\)\. Call model\.eval\(\)"):
        local_complexity(model.train(), x, radius=0.5, method=method)
    expected = local_complexity(model.eval(), x, radius=0.5, method=method).counts
    assert expected.sum() > 0
    model[0].train()  # what acts alike in both modes may be in either
    assert torch.equal(local_complexity(model, x, radius=0.5, method=method).counts, expected)
    assert model[0].training
    with torch.inference_mode():
        assert torch.equal(local_complexity(model, x, radius=0.5, method=method).counts, expected)


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_a_max_pool_over_padding_alone_is_refused(method: str) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2, 1, 1, dilation=5))
    with pytest.raises(ss.UnsupportedModelError, match="max_pool1d has a window that lies in the padding altogether"):
        local_complexity(model, torch.zeros(2, 2), radius=0.5, method=method)


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Sequential(nn.Linear(4, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0])


@pytest.mark.parametrize("method", ["frame", "distance"])
@pytest.mark.parametrize(
    ("layer", "op"),
    [
        (nn.LSTM(3, 4, batch_first=True), "lstm"),
        (nn.GRU(3, 4, batch_first=True), "gru"),
        (nn.RNN(3, 4, batch_first=True), "rnn_tanh"),
    ],
)
def test_recurrent_layers_are_named_and_not_left_out(layer: nn.Module, op: str, method: str) -> None:
    with pytest.raises(ss.UnsupportedModelError, match=rf"recurrent layers .* layer \({op}\)"):
        local_complexity(Recurrent(layer).eval(), torch.randn(2, 5, 3), radius=0.1, method=method)


@pytest.mark.parametrize("method", ["frame", "distance"])
def test_a_missing_batch_axis_of_a_traced_network_is_named(method: str) -> None:
    net = ss.trace(nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()).eval(), torch.zeros(1, 3, 4, 4))
    with pytest.raises(ss.InputError, match=r"the batch axis is missing, give x\[None\]"):
        local_complexity(net, torch.zeros(3, 4, 4), radius=1.0, method=method)


def test_bad_models_and_points_are_named() -> None:
    with pytest.raises(ss.InputError, match=r"rows of shape \(5,\)"):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 5), radius=1.0)
    with pytest.raises(ss.InputError, match="floating-point"):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 3, dtype=torch.int64), radius=1.0)
    with pytest.raises(ss.UnsupportedModelError, match="No activation was seen"):
        local_complexity(nn.Linear(3, 1), torch.zeros(1, 3), radius=1.0)
    broken = mlp(3, 4, 1)
    with torch.no_grad():
        broken[0].weight[0, 0] = math.nan
    with pytest.raises(ss.InputError, match=r"NaN at 1 \(relu\)"):
        local_complexity(broken, torch.zeros(1, 3), radius=1.0)

    class Mixes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x - x.mean(0))

    with pytest.raises(ss.UnsupportedModelError, match="other rows"):
        local_complexity(Mixes(), torch.randn(4, 3), radius=1.0)


class MixedRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * (x.mean(0) - x[0])


def test_a_network_that_amplifies_rounding_is_not_taken_for_one_that_mixes_rows() -> None:
    """Batch norm without skips doubles distances every few layers: after 140, rounding is a millionth and more."""
    torch.manual_seed(0)
    layers = [part for _ in range(140) for part in (nn.Linear(24, 24), nn.BatchNorm1d(24, momentum=1.0), nn.ReLU())]
    deep = nn.Sequential(*layers).double()
    x = torch.randn(64, 24, dtype=torch.float64)
    deep(x)
    deep.eval()
    with torch.no_grad():
        assert float((deep(x[:3])[:1] - deep(x[:1])).abs().max()) > 1e-9
    assert local_complexity(deep, x[:4], radius=0.1).counts.shape == (4, 140)
    with pytest.raises(ss.UnsupportedModelError, match="other rows"):
        local_complexity(nn.Sequential(MixedRows(), *deep), x[:4], radius=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(1e-3, 1e3))
def test_spacing_is_the_median_distance_to_the_nearest_other_point_and_scales(seed, count, scale):
    x = np.random.default_rng(seed).normal(size=(count, 3))
    slow = np.median([min(np.linalg.norm(a - b) for j, b in enumerate(x) if j != i) for i, a in enumerate(x)])
    assert ss.complexity.data_spacing(x) == pytest.approx(slow, rel=1e-9)
    assert ss.complexity.data_spacing(scale * x + 7.0) == pytest.approx(scale * slow, rel=1e-6)


def test_repeated_points_and_images_count_once_and_flat():
    x = torch.tensor([[0.0], [1.0], [3.0], [6.0]]).reshape(4, 1, 1, 1)
    assert ss.complexity.data_spacing(torch.cat([x, x, x])) == 1.5


def test_auto_is_half_the_spacing_for_every_method_and_told():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 1))
    x = torch.randn(40, 2)
    half = ss.complexity.data_spacing(x) / 2
    for method in ("frame", "distance"):
        found = ss.local_complexity(net, x[:9], method=method, radius=half)
        assert torch.equal(ss.local_complexity(net, x, method=method).counts[:9], found.counts)
        assert ss.local_complexity(net, x, method=method).radius == half


def test_a_monitor_settles_its_radius_once(tmp_path):
    net = nn.Sequential(nn.Linear(2, 5), nn.ReLU())
    x = torch.randn(20, 2)
    monitor = ss.ComplexityMonitor(net, {"test": 9 * x, "train": x}, out=tmp_path)
    monitor.step(0)
    assert f'"radius": {ss.complexity.data_spacing(x) / 2!r}' in (tmp_path / "complexity.jsonl").read_text()


@pytest.mark.parametrize("count", [1, 5])
def test_one_point_has_no_spacing(count):
    with pytest.raises(ss.InputError, match="2 different"):
        ss.local_complexity(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.zeros(count, 2))
