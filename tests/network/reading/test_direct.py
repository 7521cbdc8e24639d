"""A sequence of torch's own layers is read without an export, as the export would be; everything else is exported."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.network.reading.direct import read_sequence
from splinescope.network.reading.export import export

CONVS = nn.Sequential(
    nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=(1, 2)), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
    nn.MaxPool2d(2), nn.Dropout(0.3), nn.Identity(), nn.AvgPool2d(2, count_include_pad=False), nn.LeakyReLU(0.2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5, bias=False), nn.Sequential(nn.ReLU(), nn.PReLU()),
    nn.Linear(5, 6), nn.BatchNorm1d(6, affine=False), nn.ReLU6(), nn.ReLU(inplace=True), nn.Hardtanh(),
).eval()  # fmt: skip
READ = {
    "convs": (CONVS, (3, 8, 8)),
    "mlp": (nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)), (2,)),
    "linear on a matrix": (nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Flatten(), nn.Linear(24, 2)), (3, 2)),
    "conv1d, groups": (nn.Sequential(nn.Conv1d(4, 4, 3, groups=2, dilation=2), nn.ReLU(), nn.Conv1d(4, 2, 1)), (4, 9)),
    "conv3d": (nn.Sequential(nn.Conv3d(1, 2, 2, padding=1), nn.BatchNorm3d(2), nn.ReLU()).eval(), (1, 3, 3, 3)),
    "smooth": (nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.SiLU(), nn.ELU(), nn.Sigmoid()), (2,)),
    "pools of other shapes": (nn.Sequential(nn.MaxPool2d((2, 1), stride=1, padding=(1, 0), ceil_mode=True)), (1, 4, 4)),
}


def lines(graph):
    return [f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}" for node in graph.nodes]


@pytest.mark.parametrize("name", READ)
def test_a_sequence_is_read_as_its_export_is(name):
    model, shape = READ[name]
    batch = torch.randn(2, *shape)
    direct, exported = read_sequence(model, batch), export(model, batch)
    assert lines(direct.graph) == lines(exported.graph)
    for kind in ("inputs_to_parameters", "inputs_to_buffers", "user_inputs", "user_outputs"):
        assert getattr(direct.graph_signature, kind) == getattr(exported.graph_signature, kind)
    for ours, theirs in zip(direct.graph.nodes, exported.graph.nodes, strict=True):
        if ours.op == "call_function":
            assert (ours.meta["val"].shape[1:], ours.meta["val"].dtype) == (
                theirs.meta["val"].shape[1:],
                theirs.meta["val"].dtype,
            )


class Wide(nn.Linear):
    pass


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    model[0].register_forward_pre_hook(lambda module, given: (2 * given[0],))
    return model


def patched() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    model[1].forward = torch.abs
    return model


def twice() -> nn.Module:
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, nn.ReLU(), layer)


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    return model


LEFT = {
    "a module of one's own": lambda: Wide(2, 2),
    "a subclass within": lambda: nn.Sequential(Wide(2, 2), nn.ReLU()),
    "a hook": hooked,
    "a patched forward": patched,
    "a layer used twice": twice,
    "tied weights": tied,
    "parametrized": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))),
    "rows flattened": lambda: nn.Sequential(nn.Linear(2, 2), nn.Flatten(0)),
    "circular padding": lambda: nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 1, 3, padding_mode="circular")),
    "another input": lambda: nn.Sequential(nn.Linear(7, 2)),
}


@pytest.mark.parametrize("name", LEFT)
def test_all_else_is_left_to_the_export(name):
    assert read_sequence(LEFT[name](), torch.zeros(2, 2)) is None


def test_a_layer_exchanged_or_changed_since_is_read():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(5, 2)
    for change in (nn.ReLU(), nn.LeakyReLU(0.5), nn.LeakyReLU(0.1), nn.Hardtanh()):
        model[1] = change
        torch.testing.assert_close(ss.trace(model, x)(x), model(x).double(), rtol=1e-5, atol=1e-6)


def test_the_first_tiling_of_a_sequence_loads_no_compiler_of_graphs():
    code = """
import sys, torch, splinescope as ss
net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -1.0, 1.0))
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
