"""What `trace` promises beyond single operations: the model is untouched, errors are clear, snapshots are live."""

from __future__ import annotations

import collections
import copy
import random
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from splinescope.network._registry import OPERATIONS, fill
from splinescope.smooth.interpolants import curve_of

fill()


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).eval()


class Lambda(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def refusal(function, shape: tuple[int, ...] = (4, 6), kind: type[Exception] = ss.UnsupportedModelError) -> str:
    with pytest.raises(kind) as caught:
        ss.trace(Lambda(function).eval(), torch.zeros(2, *shape))
    return str(caught.value)


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


@pytest.mark.parametrize(
    ("first", "second"),
    [((nn.ReLU(), (2, 3)), (nn.ReLU(), (3, 2))), ((nn.Softmax(1), (2, 3)), (nn.Sigmoid(), (2, 3)))],
    ids=["input shape", "ending"],
)
def test_fingerprints_differ_by_input_shape_and_ending(first, second):
    marks = [ss.trace(model, torch.zeros(1, *shape)).fingerprint() for model, shape in (first, second)]
    assert marks[0] != marks[1]


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


def test_the_user_finds_everything_as_it_was():
    model = small()
    model[3].train()
    fired: list[str] = []
    model[0].register_forward_hook(lambda *_: fired.append("forward"))
    model[2].register_full_backward_hook(lambda *_: fired.append("backward"))
    model[0].weight.grad = torch.ones(5, 3)
    model.seen = []
    state = copy.deepcopy(model.state_dict())
    torch.manual_seed(5), np.random.seed(5), random.seed(5)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    hooks, parameters = list(model[0]._forward_hooks.values()), [id(p) for p in model.parameters()]
    ss.trace(model, torch.zeros(1, 3)).program()
    assert fired == []
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]
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
        drawn.append((np.random.rand(), random.random()))  # noqa: NPY002
        return x.relu()

    drawn: list[tuple[float, float]] = []
    np.random.seed(5), random.seed(5)  # noqa: NPY002
    states = np.random.get_state()[1:3], random.getstate()  # noqa: NPY002
    ss.trace(Lambda(drawing), torch.zeros(1, 3))
    assert drawn
    after = np.random.get_state()[1:3]  # noqa: NPY002
    assert np.array_equal(after[0], states[0][0])
    assert (after[1], random.getstate()) == (states[0][1], states[1])


def test_attributes_written_in_forward_stay_with_the_user():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.log = 0, []

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.log.append(x)
            return x.relu()

    model = Counting()
    ss.trace(model, torch.zeros(1, 3))
    assert (model.calls, model.log) == (0, [])


def test_models_that_cannot_be_copied_are_traced_with_hooks_put_back():
    class Stubborn(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("one of a kind")

    model, fired = Stubborn(3, 2), []
    model.register_forward_pre_hook(lambda *_: fired.append(1))
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


@pytest.mark.parametrize(
    "norm",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
    ],
)
def test_parametrised_weights_are_computed_at_snapshot_time(norm):
    torch.manual_seed(0)
    model = nn.Sequential(norm(nn.Linear(4, 4)), nn.ReLU()).eval()
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


def test_all_unsupported_parts_are_listed_at_once():
    model = nn.Sequential(
        nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6), nn.Sequential(nn.SiLU(), nn.Sigmoid()), nn.ReLU()
    )
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ss.trace(model, torch.zeros(1, 6))
    text = str(caught.value)
    for part in ("1 (GELU): gelu", "2 (LayerNorm): layer_norm", "3.0 (SiLU): silu", "3.1 (Sigmoid): sigmoid"):
        assert part in text
    assert "freeze_statistics" in text
    assert text.count("\n  - ") == 4


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda model, x: ss.trace(model, x), "trace"),
        (lambda model, x: ss.tessellate(model, ss.Slice.axes(x[0], (0, 1), -1, 1)), "tessellate"),
        (lambda model, x: ss.tiling.Retiler(model, ss.Slice.axes(x[0], (0, 1), -1, 1)), "Retiler"),
        (lambda model, x: ss.local_complexity(model, x, radius=0.1, method="exact"), "local_complexity"),
    ],
)
def test_refusals_name_what_was_asked_and_what_works(ask, name):
    x = torch.zeros(1, 6)
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ask(nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 2)), x)
    first, *_, last = str(caught.value).splitlines()
    assert first == f"{name} needs a network of affine steps and folds; in the way of that:"
    assert last.startswith("What works on this model as it is: tessellate(model, view, tolerance=...)")
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ask(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.ReLU()), x)
    assert "tolerance" not in str(caught.value)
    assert "local_complexity(model, x, radius=...)" in str(caught.value)


class Sums(nn.Module):
    """A function between two linear layers."""

    def __init__(self, function) -> None:
        super().__init__()
        self.first, self.function, self.last = nn.Linear(6, 6), function, nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (F.gelu, {"tessellate", "local_complexity", "local_map"}),
        (torch.sin, {"tessellate"}),  # it has no side to be on and no gate to hold
        (lambda z: F.layer_norm(z, (6,)), {"local_map"}),
        (lambda z: F.layer_norm(z, (6,)).relu(), {"local_complexity", "local_map"}),
        (lambda z: z.relu().logsumexp(1, keepdim=True).expand(-1, 6), {"local_complexity"}),
        (lambda z: z.exp().log1p(), set()),
        (lambda z: z * z.abs(), {"local_complexity", "local_map"}),
        (lambda z: torch.rand_like(z) * z, set()),
    ],
)
def test_each_call_that_a_refusal_promises_works_and_no_other(function, calls):
    torch.manual_seed(0)
    model, x = Sums(function).eval(), torch.randn(4, 6)
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ss.trace(model, x)
    promised = str(caught.value).partition("What works on this model as it is: ")[2]
    assert {name for name in ("tessellate", "local_complexity", "local_map") if f"{name}(" in promised} == calls
    tries = {
        "tessellate": lambda: ss.tessellate(model, ss.Slice.axes(x[0].double(), (0, 1), -1, 1), tolerance=0.1),
        "local_complexity": lambda: ss.local_complexity(model, x, radius=0.1),
        "local_map": lambda: ss.local_map(model, x[:1]),
    }
    for name, attempt in tries.items():
        if name in calls:
            attempt()
        else:
            with pytest.raises(ss.SplinescopeError):
                attempt()


@pytest.mark.parametrize("name", sorted(name for name, known in OPERATIONS.items() if "tolerance=" in known.reason))
def test_a_tolerance_is_advised_for_those_operations_alone_that_it_takes(name):
    """One table: what it calls smooth has an interpolant, and nothing else sends the user there."""
    assert OPERATIONS[name].kind == "smooth"
    if name in ("arctan", "softsign", "log_sigmoid"):  # other names of what torch exports under one that is here
        return
    assert curve_of(name, torch.tanh, {}) is not None


def test_every_smooth_operation_says_that_a_tolerance_takes_it():
    smooth = {name for name, known in OPERATIONS.items() if known.kind == "smooth"}
    assert smooth == {name for name, known in OPERATIONS.items() if "tolerance=1e-3" in known.reason}


REFUSED = [
    (lambda x: F.hardswish(x) + 1, "hardswish is piecewise quadratic"),
    (lambda x: torch.tanh(x) + 1, "tanh is smooth and allowed only"),
    (lambda x: F.elu(x), "elu is smooth"),
    (lambda x: F.celu(x), "celu is smooth"),
    (lambda x: F.softsign(x), "softsign is smooth"),
    (lambda x: F.hardshrink(x), "hardshrink is not continuous"),
    (lambda x: F.threshold(x, 0.0, 1.0), "threshold is not continuous"),
    (lambda x: x * x.relu(), "mul multiplies two values"),
    (lambda x: x @ x.mT, "matmul multiplies two values"),
    (lambda x: F.scaled_dot_product_attention(x, x, x), "depend on the input"),
    (lambda x: torch.einsum("bij,bkj->bik", x, x), "einsum multiplies two values"),
    (lambda x: x / x.abs(), "divides by a value"),
    (lambda x: torch.where(x > 0, x, -x), "gt is not continuous"),
    (lambda x: x.sign(), "sign is not continuous"),
    (lambda x: x.long().double(), "casts to torch.int64"),
    (lambda x: x.half().float(), "casts to torch.float16, which is coarser"),
    (lambda x: x.relu() ** 2, "has no exact tiles; tessellate(model, view, tolerance"),
    (lambda x: (x.relu() + 1) ** 0.5, "only x**1 is read as it is"),
    (lambda x: x.relu() ** x, "only x**1 is read as it is"),
    (lambda x: 2 ** x.relu(), "only x**1 is read as it is"),
    (lambda x: x + torch.randn_like(x), "randn_like is random"),
    (lambda x: x + torch.randn(6), "randn is random"),
    (lambda x: F.dropout(x, 0.5, training=True), "random"),
    (lambda x: F.group_norm(x, 2), "freeze_statistics"),
    (lambda x: F.instance_norm(x), "freeze_statistics"),
    (lambda x: x.sort(1)[0], "only pairs"),
    (lambda x: x.max(1)[1] + x.max(1)[0].long(), "indices"),
    (lambda x: torch.lgamma(x), "lgamma has no rule"),
    (lambda x: x - x.mean(0), "batch axis"),
    (lambda x: x.sum(), "batch axis"),
    (lambda x: x.transpose(0, 1), "batch axis"),
    (lambda x: x[torch.arange(x.shape[0])], "batch size as a number"),
]


@pytest.fixture(scope="module")
def refusals() -> str:
    """The one error of a model that does everything in `REFUSED`."""

    class Everything(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(Lambda(function) for function, _ in REFUSED)

        def forward(self, x: Tensor) -> Tensor:
            return x + sum(part(x).sum().to(x.dtype) for part in self.parts)

    return refusal(Everything())


@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_refusals_say_where_and_why(i, refusals):
    lines = [line for line in refusals.splitlines() if line.startswith(f"  - function.parts.{i} (Lambda): ")]
    assert any(REFUSED[i][1] in line for line in lines), lines


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.flatten(0, 1), "output moves, merges or reduces the batch axis"),
        (lambda x: x.flip(0), "mixes the rows"),
        (lambda x: x.cumsum(0), "mixes the rows"),
        (lambda x: x.view(2, 24), "fixes the batch size"),
        (lambda x: x if x.sum() > 0 else -x, "control flow"),
        (lambda x: (x, x), r"returns 2 tensors: 0 (N, 4, 6), 1 (N, 4, 6). Choose one with output="),
        (lambda x: {"a": x, "b": x}, "returns 2 tensors: a (N, 4, 6), b (N, 4, 6)."),
        (lambda x: torch.ones(2), "does not depend on its input"),
        (lambda x: x @ torch.ones(3, 3), "could not be read with an example"),
    ],
)
def test_models_that_are_no_networks_are_refused(function, words, capsys):
    assert words in refusal(function)
    assert capsys.readouterr().err == ""  # where torch would print half a graph


def test_models_of_several_inputs_are_refused():
    assert "fixes the rest" in refusal(nn.Bilinear(6, 6, 2))
    with pytest.raises(ss.InputError, match="one batch"):
        ss.trace(nn.Bilinear(6, 6, 2), (torch.zeros(1, 6), torch.zeros(1, 6)))


def test_one_tensor_in_a_dict_is_enough():
    assert ss.trace(Lambda(lambda x: {"logits": x.relu()}), torch.zeros(1, 3)).output_shape == (3,)


def test_a_model_without_parameters_and_one_without_folds_work():
    network = ss.trace(nn.Identity(), torch.zeros(1, 3))
    assert (network.sites, network.program().steps) == ((), ())
    x = torch.randn(2, 3)
    assert torch.equal(network(x), x.double())


def test_training_mode_is_refused_by_name_where_it_matters():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.2), nn.Dropout(0.0))
    with pytest.raises(ss.UnsupportedModelError, match=r"1 \(BatchNorm1d\), 2 \(Dropout\)\. Call model.eval"):
        ss.trace(model, torch.zeros(2, 3))
    assert model.training
    ss.trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).train(), torch.zeros(2, 3))


def test_batch_norm_without_running_statistics_is_refused():
    with pytest.raises(ss.UnsupportedModelError, match="statistics of the batch"):
        ss.trace(nn.BatchNorm1d(3, track_running_stats=False).eval(), torch.zeros(2, 3))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(bad):
    model = small()
    network = ss.trace(model, torch.zeros(1, 3))
    with torch.no_grad():
        model[3].bias[1] = bad
    for call in (network.program, lambda: ss.trace(model, torch.zeros(1, 3))):
        with pytest.raises(ss.InputError, match=r"3\.bias must be finite, got 1"):
            call()


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (torch.zeros(2, 3, dtype=torch.long), "floating-point"),
        (torch.zeros(0, 3), "at least one row"),
        (torch.tensor(1.0), "at least one row"),
        ("abc", "must be a tensor or array of shape"),
        (None, "must be a tensor or array of shape"),
    ],
)
def test_bad_examples_are_refused(example, words):
    with pytest.raises(ss.InputError, match=words):
        ss.trace(small(), example)


def test_bad_models_and_inputs_are_refused():
    with pytest.raises(ss.InputError, match=r"torch\.nn\.Module"):
        ss.trace(lambda x: x, torch.zeros(1, 3))
    with pytest.raises(ss.InputError, match=r"shape \(N, 3\), got \(4, 2\)"):
        ss.trace(small(), torch.zeros(1, 3))(torch.zeros(4, 2))
    with pytest.raises(ss.UnsupportedModelError, match="not initialised"):
        ss.trace(nn.LazyLinear(3), torch.zeros(1, 3))
    with pytest.raises(ss.UnsupportedModelError, match="batch axis first"):
        ss.trace(small(), torch.zeros(3))
    with pytest.raises(ss.UnsupportedModelError, match="load its weights"):
        ss.trace(nn.Linear(3, 3, device="meta"), torch.zeros(1, 3))
    with pytest.raises(ss.UnsupportedModelError, match="returns none"):
        ss.trace(Lambda(lambda x: None), torch.zeros(1, 3))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("inside", [False, True])
def test_script_modules_are_refused(inside):
    scripted = torch.jit.script(nn.Linear(3, 3))
    model = nn.Sequential(scripted, nn.ReLU()) if inside else scripted
    with pytest.raises(ss.UnsupportedModelError, match="is a ScriptModule, which hides its operations"):
        ss.trace(model, torch.zeros(1, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, of its old quantiser
def test_quantised_modules_are_called_what_they_are():
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), {nn.Linear})
    with pytest.raises(ss.UnsupportedModelError, match=r"0 \(Linear\) is quantised: it rounds") as caught:
        ss.trace(model, torch.zeros(1, 3))
    assert str(caught.value).count("quantised") == 1


def test_weights_whose_products_overflow_are_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_().mul_(1e200)
    with pytest.raises(ss.InputError, match=r"2 \(linear_1\): values beyond the range of float64"):
        ss.trace(model, torch.zeros(1, 2))


def test_a_missing_batch_axis_is_named():
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU())
    with pytest.raises(ss.UnsupportedModelError, match=r"batch axis is missing.*shape \(8, 8\).*example\[None\]"):
        ss.trace(model, torch.zeros(3, 8, 8))


class Branching(nn.Module):
    """Another function for single rows than for batches."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x).relu() if x.shape[0] > 1 else self.map(x).relu() + 0.17


class Counting(nn.Module):
    """A new function at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.relu() * float(np.random.rand())  # noqa: NPY002


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_that_branches_on_the_batch_size_is_refused_with_the_difference(dtype):
    with pytest.raises(ss.UnsupportedModelError, match=r"differs by 0\.17 \(of .*\) on a batch of 1 row\."):
        ss.trace(Branching().to(dtype), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("asks", "rows", "condition"),
    [
        (lambda x: x.shape[0] > 4, 8, "N <= 4"),  # of the sizes that are always compared
        (lambda x: len(x) > 40, 41, "N <= 40"),
        (lambda x: x.numel() >= 3000, 125, "24*N < 3000"),
        (lambda x: x.shape[0] == 7, 7, "Ne(N, 7)"),
    ],
)
def test_a_branch_at_any_batch_size_is_found_and_named_with_its_line(asks, rows, condition):
    text = refusal(lambda x: x.relu() + 0.25 if asks(x) else x.relu())
    assert "differs by 0.25 (of " in text
    assert f"on a batch of {rows} rows" in text
    assert re.search(rf"\(test_trace\.py, line \d+ asks whether {re.escape(condition)}\)", text)


def test_a_branch_beyond_what_can_be_compared_is_refused_and_one_that_changes_nothing_is_read():
    assert "100000000 rows" in refusal(lambda x: x.relu() if x.shape[0] < 10**8 else x)
    halves = Lambda(lambda x: torch.cat([x[:10].relu(), x[10:].relu()]) if x.shape[0] > 10 else x.relu())
    assert ss.trace(halves, torch.zeros(20, 3)).sites[0].units == 3


def test_what_was_read_is_not_used_again_when_larger_batches_have_changed():
    """A limit that no attribute shows: the second trace must see it on more than three rows."""
    limit = [100]
    model = Lambda(lambda x: x.relu() + 1.0 if x.shape[0] > limit[0] else x.relu())
    with pytest.raises(ss.UnsupportedModelError, match="batch of 101 rows"):
        ss.trace(model, torch.zeros(1, 3))
    limit[0] = 10**15
    ss.trace(model, torch.zeros(1, 3))
    limit[0] = 4
    with pytest.raises(ss.UnsupportedModelError, match="batch of 8 rows"):
        ss.trace(model, torch.zeros(1, 3))


def test_a_module_that_fails_on_single_rows_is_refused():
    def picky(x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise ValueError("too few")
        return x.relu()

    assert "it fails (ValueError: too few) on a batch of 1 row" in refusal(picky)


def test_agreement_leaves_buffers_and_states_as_they_were():
    model = Counting()
    state = np.random.get_state()[1:3]  # noqa: NPY002
    with pytest.raises(ss.UnsupportedModelError, match="does not do what was read from it"):
        ss.trace(model, torch.zeros(2, 3))
    assert float(model.calls) == 0
    assert np.random.get_state()[2] == state[1]  # noqa: NPY002


def test_rounding_of_a_short_dtype_is_no_difference():
    """A sum that cancels: float32 keeps no digit of it, float64 shows that both do the same."""
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e7, -1e7]])), model.bias.zero_()
    net = ss.trace(nn.Sequential(Lambda(lambda x: x[:, :1] + torch.tensor([0.0, 1e-7])), model), torch.zeros(1, 2))
    values = net(torch.randn(5, 2, dtype=torch.float64))  # 1e7 x - 1e7 (x + 1e-7): float64 keeps it to 1e-8
    assert torch.allclose(values, torch.full_like(values, -1.0), rtol=0, atol=1e-6)


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


def test_a_traced_network_has_its_output():
    with pytest.raises(ss.InputError, match="first trace"):
        ss.trace(ss.trace(nn.ReLU(), torch.zeros(1, 3)), None, output=0)


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


def test_the_jacobian_of_a_program_is_that_of_the_model():
    model = small().double()
    x = torch.randn(3, dtype=torch.float64)
    program = ss.trace(model, torch.zeros(1, 3)).program()
    ours = torch.func.jacrev(lambda p: program.forward(p[None])[0])(x)
    torch.testing.assert_close(ours, torch.func.jacrev(lambda p: model(p[None])[0])(x), rtol=1e-12, atol=1e-12)


def test_all_refused_layers_of_a_transformer_are_named_at_once():
    """Attention moves the batch axis first; what comes after it is named all the same."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ss.trace(layer, torch.zeros(1, 3, 4))
    for word in ("scaled_dot_product_attention", "norm1", "norm2"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "ask",
    [lambda m, x: ss.local_complexity(m, x, radius=0.1), lambda m, x: ss.local_map(m, x[:1]), ss.log_volume],
    ids=["local_complexity", "local_map", "log_volume"],
)
def test_batch_norms_without_statistics_are_named_where_no_tiling_is_asked_for(ask):
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU()).eval()
    with pytest.raises(ss.UnsupportedModelError, match=r"no running statistics.*1 \(BatchNorm1d\)"):
        ask(net, torch.randn(9, 2))
