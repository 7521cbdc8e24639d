"""What `trace` promises beyond single operations: the model is untouched, snapshots are live, outputs are chosen."""

import collections
import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.watching.undisturbed import HookWarning

from ..wrapped import Lambda, small


def test_network_describes_itself():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3), nn.Hardtanh())
    network = ss.trace(nn.Sequential(model, nn.Softmax(1)), np.zeros((1, 1, 6, 6)))
    assert (network.input_shape, network.output_shape, network.ending) == ((1, 6, 6), (3,), "softmax")
    assert [(s.path, s.op, s.shape, s.units, s.depth) for s in network.sites] == [
        ("0.1", "relu", (2, 4, 4), 32, 1),
        ("0.2", "max_pool2d", (2, 2, 2), 8, 2),
        ("0.5", "hardtanh", (3,), 6, 3),
    ]
    assert repr(network) == "SplineNetwork(Sequential: (1, 6, 6) -> (3,), 46 units at 3 sites, before softmax)"
    assert [s.cuts for s in network.sites] == [32, 24, 6]
    assert network.summary().splitlines()[2].split() == ["0", "0.1", "relu", "2x4x4", "32", "1"]
    assert ss.trace(network, None) is network


def test_a_site_is_called_by_what_the_user_wrote():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU6(), nn.Linear(2, 2), nn.Hardtanh(0, 5), Lambda(F.relu6))
    for found in (ss.trace(model, torch.zeros(1, 2)), ss.local_complexity(model, torch.ones(1, 2), radius=1.0)):
        assert [site.op for site in found.sites] == ["relu6", "hardtanh", "relu6"]


def test_depth_counts_the_longest_way():
    class Skip(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(torch.relu(torch.relu(x)) + x.abs())

    assert [s.depth for s in ss.trace(Skip(), torch.zeros(1, 2)).sites] == [1, 2, 1, 3]


def test_snapshots_follow_training_and_stay_as_taken():
    model = small()
    network, x = ss.trace(model, torch.zeros(1, 3)), torch.randn(4, 3)
    before, mark = network.program(), network.fingerprint()
    old = before.forward(x)
    with torch.no_grad():
        model[0].weight.mul_(2)
        model[1].running_mean.add_(1)
    torch.testing.assert_close(before.forward(x), old)
    # the model computes in float32
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-5)
    assert network.fingerprint() != mark


def test_a_snapshot_is_whole_without_the_module():
    """It owns its numbers, integer ones too, and knows its fingerprint."""
    model = small()
    model.register_buffer("order", torch.tensor([2, 0, 1]))
    picks = nn.Sequential(Lambda(lambda x: x[:, model.order]), model)
    network = ss.trace(picks, torch.zeros(1, 3))
    program, x = network.program(), torch.randn(4, 3)
    before, mark = program.forward(x), network.fingerprint()
    with torch.no_grad():
        model.order.copy_(torch.tensor([0, 0, 0]))
        model[0].weight.data.mul_(2)
    assert torch.equal(program.forward(x), before)
    assert program.fingerprint == mark != network.fingerprint()
    assert (program.paths[program.folds[0].output], program.ops[program.folds[0].output]) == ("1.2", "relu")
    assert program.ending is None


def test_snapshots_share_what_did_not_change():
    model = small()
    network = ss.trace(model, torch.zeros(1, 3))
    first = network.program()
    assert network.program() is first
    model[3].weight.data.mul_(2)  # which leaves the version counter as it is
    second = network.program()
    assert sum(a is not b for a, b in zip(first.constants, second.constants, strict=True)) == 1
    replaced = network.program({"3.weight": torch.zeros(2, 5)})
    assert torch.equal(replaced.forward(torch.zeros(1, 3))[0], model[3].bias.detach().double())
    assert network.program() is second


def test_fingerprint_is_one_for_equal_networks_of_any_dtype():
    model = small()
    mark = ss.trace(model, torch.zeros(1, 3)).fingerprint()
    assert mark == ss.trace(copy.deepcopy(model).double(), torch.zeros(5, 3)).fingerprint()
    assert len(mark) == 64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_models_of_any_floating_dtype_are_computed_in_float64(dtype):
    model = small().to(dtype)
    network = ss.trace(model, torch.zeros(2, 3))
    x = torch.randn(4, 3, dtype=torch.float64)
    assert network(x).dtype == torch.float64
    torch.testing.assert_close(network(x), copy.deepcopy(model).double()(x), rtol=1e-12, atol=1e-12)


def test_arrays_are_taken_in_the_dtype_of_a_model_without_parameters():
    """Numpy's float64 is nobody's choice: the model's own constants have torch's default."""
    assert ss.trace(Lambda(lambda x: F.relu(x @ torch.ones(2, 3))), np.zeros((1, 2))).output_shape == (3,)


def test_the_user_finds_everything_as_it_was():
    model = small()
    model[3].train()
    fired: list[str] = []
    model[0].register_forward_hook(lambda *_: fired.append("forward"))
    model[2].register_full_backward_hook(lambda *_: fired.append("backward"))
    model[0].weight.grad = torch.ones(5, 3)
    model.seen = []
    state = copy.deepcopy(model.state_dict())
    hooks, parameters = list(model[0]._forward_hooks.values()), [id(p) for p in model.parameters()]
    with pytest.warns(HookWarning):
        ss.trace(model, torch.zeros(1, 3)).program()
    assert fired == []
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert [m.training for m in model] == [False, False, False, True]
    assert list(model[0]._forward_hooks.values()) == hooks
    assert [id(p) for p in model.parameters()] == parameters
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(model[0].weight.grad, torch.ones(5, 3))
    model(torch.zeros(2, 3))
    assert fired == ["forward"]


def test_random_numbers_a_model_draws_while_it_is_read_are_given_back():
    """Its code runs once on stand-ins; the states it draws from are those of the user."""

    def drawing(x: Tensor) -> Tensor:
        drawn.append((np.random.rand(), random.random(), torch.rand(1)))  # noqa: NPY002
        return x.relu()

    def states() -> str:
        return f"{np.random.get_state()[1:3]} {random.getstate()} {torch.get_rng_state().tolist()}"  # noqa: NPY002

    drawn: list[object] = []
    before = states()
    ss.trace(Lambda(drawing), torch.zeros(1, 3))
    assert drawn
    assert states() == before


def test_models_that_cannot_be_copied_are_traced_with_hooks_put_back():
    class Stubborn(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("one of a kind")

    model, fired = Stubborn(3, 2), []
    model.register_forward_pre_hook(lambda *_: fired.append(1))
    with pytest.warns(HookWarning):
        ss.trace(model, torch.zeros(1, 3))
    assert fired == []
    model(torch.zeros(1, 3))
    assert fired == [1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it loads its compiler
def test_wrappers_are_looked_through():
    model = small()
    plain = ss.trace(model, torch.zeros(1, 3)).fingerprint()
    assert ss.trace(nn.DataParallel(model), torch.zeros(1, 3)).fingerprint() == plain
    assert ss.trace(torch.compile(model, backend="eager"), torch.zeros(1, 3)).fingerprint() == plain


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm", "orthogonal"])
def test_parametrized_weights_are_computed_at_snapshot_time(norm):
    torch.manual_seed(0)
    model = nn.Sequential(getattr(nn.utils.parametrizations, norm)(nn.Linear(4, 4)), nn.ReLU()).eval()
    network, x = ss.trace(model, torch.zeros(1, 4)), torch.randn(3, 4, dtype=torch.float64)
    with torch.no_grad():
        model[0].bias.add_(1)
    torch.testing.assert_close(network(x), copy.deepcopy(model).double()(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("ending", "label"),
    [
        (lambda x: F.softmax(x, 1), "softmax"),
        (lambda x: F.log_softmax(x, -1), "log_softmax"),
        (lambda x: torch.sigmoid(x).squeeze(-1), "sigmoid"),
        (torch.tanh, "tanh"),
        (lambda x: x.argmax(1), "argmax"),
        (lambda x: x.max(1)[1], "argmax"),
        (lambda x: F.softmax(x, 1).argmax(1), "softmax, argmax"),
    ],
)
def test_endings_are_left_out_and_named(ending, label):
    network = ss.trace(Lambda(lambda x: ending(2 * x.relu())), torch.zeros(1, 3))
    assert network.ending == label
    assert torch.equal(network(torch.ones(2, 3)), torch.full((2, 3), 2.0, dtype=torch.float64))


def test_a_model_without_parameters_and_one_without_folds_work():
    network = ss.trace(nn.Identity(), torch.zeros(1, 3))
    assert (network.sites, network.program().steps) == ((), ())
    x = torch.randn(2, 3)
    assert torch.equal(network(x), x.double())


Pair = collections.namedtuple("Pair", "boxes scores")


@pytest.mark.parametrize(
    ("function", "output", "shape"),
    [
        (lambda x: (x.relu(), x[:, :1]), 1, (1,)),
        (lambda x: (x.relu(), x[:, :1]), -2, (3,)),
        (lambda x: [x.relu(), {"deep": (x, x[:, :2])}], "1.deep.1", (2,)),
        (lambda x: {"logits": x[:, :2], "features": x}, "logits", (2,)),
        (lambda x: Pair(x, x[:, :1].sigmoid()), "scores", (1,)),
        (lambda x: (None, x[:, :2], 3), None, (2,)),
    ],
)
def test_one_of_several_outputs_is_chosen_by_index_or_name(function, output, shape):
    network = ss.trace(Lambda(function), torch.zeros(1, 3), output=output)
    assert network.output_shape == shape
    assert network.ending == ("sigmoid" if output == "scores" else None)


@pytest.mark.parametrize("output", [2, "c", True, 1.5])
def test_outputs_that_are_not_there_are_named(output):
    with pytest.raises(ss.InputError, match="output must be"):
        ss.trace(Lambda(lambda x: (x, x)), torch.zeros(1, 3), output=output)


def test_rows_within_rows_tile_like_the_same_network_without_them():
    """A convolution and pool over `x.view(-1, 1, C)`, and the same maps as one linear layer and a maximum."""
    torch.manual_seed(0)
    kernel = torch.randn(2, 1, 2, dtype=torch.float64)

    def merged(x: Tensor) -> Tensor:
        y = F.max_pool1d(F.conv1d(x.view(-1, 1, 4), kernel).relu(), 3)
        return y.view(x.shape[0], 4)

    def plain(x: Tensor) -> Tensor:
        rows = [F.conv1d(row[:, None], kernel).relu().amax(2) for row in x.view(x.shape[0], 2, 4).unbind(1)]
        return torch.cat(rows, 1)

    view = ss.Slice.axes(np.linspace(-0.3, 0.4, 8).reshape(8), (1, 6), -2, 2)
    tilings = [ss.tessellate(Lambda(function).double(), view) for function in (merged, plain)]
    assert tilings[0].count == tilings[1].count > 10
    assert tilings[0].check().ok
    assert sum(site.units for site in tilings[0].sites) == sum(site.units for site in tilings[1].sites)


def test_tessellate_tiles_the_chosen_output():
    model = Lambda(lambda x: {"flat": x, "bent": x.relu().sum(1, keepdim=True)})
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    assert ss.tessellate(model, view, output="bent").count == 4
    assert ss.tessellate(model, view, output=0).count == 1


def test_a_changed_structure_is_noticed():
    model = small()
    network = ss.trace(model, torch.zeros(1, 3))
    del model[3]
    with pytest.raises(ss.UnsupportedModelError, match="changed since it was traced"):
        network.program()


def test_constants_with_a_batch_axis_are_the_same_in_every_row():
    def function(x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], 3) + torch.tensor([1.0, 2.0, 3.0])
        for _ in range(2):
            state = torch.relu(state * 0.5 + x)
        return state

    network, x = ss.trace(Lambda(function), torch.zeros(1, 3)), torch.randn(4, 3)
    torch.testing.assert_close(network(x), function(x).double(), rtol=1e-6, atol=1e-6)
    assert [s.depth for s in network.sites] == [1, 2]
