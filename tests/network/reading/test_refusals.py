"""What cannot be read is refused in words: what is in the way and where, what works instead."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.interpolants import curve_of
from splinescope.network.network import check_rows
from splinescope.network.ops.registry import OPERATIONS

from ..wrapped import Lambda, refusal, small


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
    "ask",
    [ss.trace, lambda model, x: ss.tessellate(model, ss.Slice.axes(x[0], (0, 1), -1, 1))],
    ids=["trace", "tessellate"],
)
def test_refusals_name_other_calls(ask):
    x = torch.zeros(1, 6)
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ask(nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 2)), x)
    first, *_, last = str(caught.value).splitlines()
    assert first == "The network must be made of affine steps and folds; in the way of that:"
    assert last.startswith("Calls that may take this model as it is: tessellate(model, view, tolerance=...)")
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
        (torch.sin, {"tessellate", "local_map"}),  # it has no side to be on
        (lambda z: F.layer_norm(z, (6,)), {"local_map"}),
        (lambda z: F.layer_norm(z, (6,)).relu(), {"local_complexity", "local_map"}),
        (lambda z: z.relu().logsumexp(1, keepdim=True).expand(-1, 6), {"local_complexity"}),
        (lambda z: z.exp().log1p(), set()),
        (lambda z: z * z.abs(), {"local_complexity", "local_map"}),
        (lambda z: torch.rand_like(z) * z, set()),
    ],
)
def test_a_tolerance_is_advised_where_it_works_and_other_calls_answer_or_refuse_in_words(function, calls):
    torch.manual_seed(0)
    model, x = Sums(function).eval(), torch.randn(4, 6)
    with pytest.raises(ss.UnsupportedModelError) as caught:
        ss.trace(model, x)
    advice = str(caught.value).partition("Calls that may take this model as it is: ")[2]
    assert ("tolerance=" in advice) == ("tessellate" in calls)
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


def test_a_tolerance_is_advised_for_those_operations_alone_that_it_takes():
    """One table: what it calls smooth has an interpolant, and nothing else sends the user there."""
    smooth = {name for name, known in OPERATIONS.items() if known.kind == "smooth"}
    assert smooth == {name for name, known in OPERATIONS.items() if "tolerance=" in known.reason}
    unknown = {name for name in smooth if curve_of(name, torch.tanh, {}) is None}
    assert unknown == {"tanhshrink"}  # exported as x - tanh(x)


REFUSED = [
    (lambda x: F.hardswish(x) + 1, "hardswish is piecewise quadratic"),
    (lambda x: torch.tanh(x) + 1, "tanh is smooth and allowed only"),
    (lambda x: F.softsign(x), "softsign is smooth"),
    (lambda x: F.hardshrink(x), "hardshrink is not continuous"),
    (lambda x: F.threshold(x, 0.0, 1.0), "threshold is not continuous"),
    (lambda x: x * x.relu(), "mul multiplies two values"),
    (lambda x: F.scaled_dot_product_attention(x, x, x), "depend on the input"),
    (lambda x: torch.einsum("bij,bkj->bik", x, x), "einsum multiplies two values"),
    (lambda x: x / x.abs(), "divides by a value"),
    (lambda x: torch.where(x > 0, x, 1 - x), "where jumps by 1 where the value it is a function of is 0"),
    (lambda x: x.sign(), "sign is not continuous"),
    (lambda x: x.long().double(), "casts to torch.int64"),
    (lambda x: x.half().float(), "casts to torch.float16, which is coarser"),
    (lambda x: x.relu() ** 2, "has no exact tiles; tessellate(model, view, tolerance"),
    (lambda x: (x.relu() + 1) ** 0.5, "only x**1 is read as it is"),
    (lambda x: x.relu() ** x, "only x**1 is read as it is"),
    (lambda x: x + torch.randn_like(x), "randn_like is random"),
    (lambda x: F.dropout(x, 0.5, training=True), "random"),
    (lambda x: F.group_norm(x, 2), "freeze_statistics"),
    (lambda x: F.instance_norm(x), "freeze_statistics"),
    (lambda x: torch.lerp(x, x.flip(1), 0.3), "lerp is not read; write start + weight"),
    (lambda x: x.sort(1)[1].double(), "indices"),
    (lambda x: x.topk(2, 1)[1].double(), "topk gives values that are piecewise affine"),
    (lambda x: x.sort(0)[0], "sorts along the batch axis"),
    (lambda x: x.median(0)[0], "batch axis"),
    (lambda x: x.norm(2, 1), "for p = 1 and p = inf alone"),
    (lambda x: torch.cdist(x, torch.ones(3, 6)), "for p = 1 and p = inf alone"),
    (lambda x: x * x, "has no exact tiles; tessellate(model, view, tolerance"),
    (lambda x: x.max(1)[1] + x.max(1)[0].long(), "indices"),
    (lambda x: torch.lgamma(x), "lgamma has no rule"),
    (lambda x: x - x.mean(0), "batch axis"),
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
    told = (line.removeprefix("  - ").partition(" (Lambda): ") for line in refusals.splitlines())
    lines = [why for paths, _, why in told if f"function.parts.{i}" in paths.split(", ")]
    assert any(REFUSED[i][1] in line for line in lines), lines


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.flatten(0, 1), "output moves, merges or reduces the batch axis"),
        (lambda x: x.flip(0), "mixes the rows"),
        (lambda x: x.view(2, 24), "makes a plain number of the batch size"),
        (lambda x: x if x.sum() > 0 else -x, "control flow"),
        (lambda x: (x, x), "returns 2 tensors: 0 (N, 4, 6), 1 (N, 4, 6). Choose one, by index or by name: give pick"),
        (lambda x: torch.ones(2), "does not depend on its input"),
        (lambda x: x @ torch.ones(3, 3), "could not be read with an example"),
    ],
)
def test_models_that_are_no_networks_are_refused(function, words, capsys):
    assert words in refusal(function)
    assert capsys.readouterr().err == ""  # where torch would print half a graph


def test_rows_whose_terms_cancel_are_not_taken_for_mixed():
    """A processor may round a batch otherwise than its rows, and where terms cancel nothing else is left."""
    v = torch.randn(3, 1).double().expand(3, 2)
    for size, mixed in ((1e-17, False), (1e-3, True)):
        step = SimpleNamespace(output="sum", run=lambda v, size=size: v[:, :1] - v[:, 1:] + size * len(v))
        program = SimpleNamespace(input_shape=(2,), paths={}, walk=lambda x, step=step: [(step, [v], step.run(v))])
        with pytest.raises(ss.UnsupportedModelError, match="mixes") if mixed else nullcontext():
            check_rows(program)


class FirstOf(nn.Module):
    def __init__(self, layer: nn.Module, copies: int = 1) -> None:
        super().__init__()
        self.layer, self.copies = layer, copies

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(*[x] * self.copies)[0]


@pytest.mark.parametrize(
    ("model", "ops"),
    [
        (FirstOf(nn.RNN(6, 3, nonlinearity="relu", batch_first=True)), ["rnn_relu"]),
        (FirstOf(nn.LSTM(6, 3, batch_first=True)), ["lstm"]),
        (FirstOf(nn.MultiheadAttention(6, 2, batch_first=True), 3), ["bmm", "softmax"]),
    ],
)
def test_a_refusal_names_the_cause_and_not_how_the_layer_handles_the_batch_axis(model, ops):
    lines = [line for line in refusal(model.eval()).splitlines() if line.startswith("  - ")]
    assert [line.split(": ")[1].split()[0] for line in lines] == ops


def test_models_of_several_inputs_are_refused():
    assert "fixes the rest" in refusal(nn.Bilinear(6, 6, 2))
    with pytest.raises(ss.InputError, match="one batch"):
        ss.trace(nn.Bilinear(6, 6, 2), (torch.zeros(1, 6), torch.zeros(1, 6)))


def test_training_mode_is_refused_by_name_where_it_matters():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.2), nn.Dropout(0.0))
    with pytest.raises(ss.UnsupportedModelError, match=r"1 \(BatchNorm1d\), 2 \(Dropout\)\. Call model.eval"):
        ss.trace(model, torch.zeros(2, 3))
    assert model.training
    ss.trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).train(), torch.zeros(2, 3))


def test_batch_norm_without_running_statistics_is_refused():
    with pytest.raises(ss.UnsupportedModelError, match="statistics of the batch"):
        ss.trace(nn.BatchNorm1d(3, track_running_stats=False).eval(), torch.zeros(2, 3))


def test_weights_that_are_not_finite_or_sparse_are_named():
    model = small()
    network, mask = ss.trace(model, torch.zeros(1, 3)), torch.eye(3).to_sparse()
    model[3].bias.data[1] = float("inf")
    for call in (network.program, lambda: ss.trace(model, torch.zeros(1, 3))):
        with pytest.raises(ss.InputError, match=r"3\.bias must be finite, got 1"):
            call()
    with pytest.raises(ss.InputError, match=r"must be dense, got .*sparse_coo"):
        ss.trace(Lambda(lambda x: x @ mask.to_dense()), torch.zeros(1, 3)).program()


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (torch.zeros(2, 3, dtype=torch.long), "floating-point"),
        (torch.zeros(0, 3), "at least one row"),
        (torch.tensor(1.0), r"shape \(N, \.\.\.\).*single number 1"),
        ("abc", "must be a tensor or array of shape"),
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
    with pytest.raises(ss.UnsupportedModelError, match="not initialized"):
        ss.trace(nn.LazyLinear(3), torch.zeros(1, 3))
    with pytest.raises(ss.UnsupportedModelError, match="batch axis first"):
        ss.trace(small(), torch.zeros(3))
    with pytest.raises(ss.UnsupportedModelError, match="load its weights"):
        ss.trace(nn.Linear(3, 3, device="meta"), torch.zeros(1, 3))
    with pytest.raises(ss.UnsupportedModelError, match="returns none"):
        ss.trace(Lambda(lambda x: None), torch.zeros(1, 3))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_script_modules_are_refused():
    model = nn.Sequential(torch.jit.script(nn.Linear(3, 3)), nn.ReLU())
    with pytest.raises(ss.UnsupportedModelError, match="is a ScriptModule, which hides its operations"):
        ss.trace(model, torch.zeros(1, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, of its old quantizer
def test_quantized_modules_are_called_what_they_are():
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), {nn.Linear})
    with pytest.raises(ss.UnsupportedModelError, match=r"0 \(Linear\) is quantized: it rounds") as caught:
        ss.trace(model, torch.zeros(1, 3))
    assert str(caught.value).count("quantized") == 1


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


@pytest.mark.parametrize(
    "ask",
    [lambda m, x: ss.local_complexity(m, x, radius=0.1), lambda m, x: ss.local_map(m, x[:1]), ss.log_volume],
    ids=["local_complexity", "local_map", "log_volume"],
)
def test_batch_norms_without_statistics_are_named_where_no_tiling_is_asked_for(ask):
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU()).eval()
    with pytest.raises(ss.UnsupportedModelError, match=r"no running statistics.*1 \(BatchNorm1d\)"):
        ask(net, torch.randn(9, 2))


READERS = {
    "the network itself": lambda net, x: net(x),
    "local_complexity": lambda net, x: ss.local_complexity(net, x, radius=0.1),
    "report": lambda net, x: ss.report(net, x, out=None, progress=False),
    "log_volume": lambda net, x: ss.log_volume(net, x),
}


@pytest.mark.parametrize("name", READERS)
def test_rows_that_a_traced_network_does_not_take_are_named_by_shape(name):
    """Its program would run on images of another size; it was not read for them."""
    net = ss.trace(nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()).double().eval(), torch.zeros(1, 3, 6, 6))
    with pytest.raises(ss.InputError, match=r"the batch axis is missing, give [xz]\[None\]"):
        READERS[name](net, torch.randn(3, 6, 6, dtype=torch.float64))
    with pytest.raises(ss.InputError, match=r"3, 6, 6\).* got \((4, )?3, 6, 5\)"):
        READERS[name](net, torch.randn(4, 3, 6, 5, dtype=torch.float64))


def test_values_that_are_not_sorted_are_refused_for_their_order():
    assert "order of values that are not sorted" in refusal(lambda x: x.topk(3, 1, sorted=False)[0], (6,))
    ss.trace(Lambda(lambda x: x.topk(1, 1, sorted=False)[0]).eval(), torch.zeros(1, 6))
