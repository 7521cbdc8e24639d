"""A module seen before is not exported again, and whatever changes what it does is noticed."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network import network
from splinescope.network.program import Program


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map, self.last = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.map(x).clamp(0, 6.0))


@pytest.fixture
def exports(monkeypatch) -> list[nn.Module]:
    """Modules that were exported, in order."""
    seen: list[nn.Module] = []
    original = network.export

    def counting(model: nn.Module, batch: Tensor):
        seen.append(model)
        return original(model, batch)

    monkeypatch.setattr(network, "export", counting)
    return seen


def test_a_module_is_exported_once_and_its_parameters_are_read_anew(exports):
    model, x = Scaled(), torch.randn(4, 3)
    first = ss.trace(model, x)
    with torch.no_grad():
        model.map.weight.mul_(2)
        model.last.bias.data.add_(1)
    second = ss.trace(model, x[:1])
    assert len(exports) == 1
    assert second.module is model
    for traced in (first, second):
        torch.testing.assert_close(traced(x), model(x).double(), rtol=1e-5, atol=1e-5)


def replace_last(model: Scaled) -> None:
    model.last = nn.Linear(5, 3)


def forward_of_its_own(model: Scaled) -> None:
    model.forward = lambda x: model.map(x)


@pytest.mark.parametrize("change", [replace_last, forward_of_its_own, nn.Module.double, nn.Module.eval])
def test_another_structure_is_read_anew(change, exports):
    """`test_stale.py` has what a module holds, or reads from elsewhere."""
    model, x = Scaled(), torch.randn(4, 3)
    ss.trace(model, x)
    change(model)
    network = ss.trace(model, x)
    assert len(exports) == 2
    x = 10 * x.to(model.map.weight.dtype)
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-4)


def test_what_a_module_knows_but_does_not_use_makes_it_no_other(exports):
    """Counters of a trainer move at every step: the module is read once all the same."""
    model, x = Scaled(), torch.randn(4, 3)
    model.trainer = SimpleNamespace(steps=0, log=[])
    ss.trace(model, x)
    model.trainer.steps = 1
    model.trainer.log.append(0.5)
    ss.trace(model, x)
    assert len(exports) == 1


def test_another_input_or_output_is_another_network(exports):
    model = nn.ReLU()
    assert ss.trace(model, torch.zeros(1, 3)).input_shape == (3,)
    assert ss.trace(model, torch.zeros(1, 2)).input_shape == (2,)
    assert len(exports) == 2


def test_what_was_read_dies_with_the_module():
    model = Scaled()
    ss.trace(model, torch.zeros(1, 3))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Noting(nn.Module):
    """Writes into itself at every call, in all the ways in which Python code does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(3, 3)
        self.again = self.map  # one module at two places
        self.calls, self.sizes, self.seen, self.history = 0, [0], {"rows": 0}, [[]]
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.sizes.append(len(x))
        self.seen["rows"] = len(x)
        self.history[0].append(len(x))
        self.total += 1
        self.last = x
        return self.again(self.map(x).relu())


def test_what_a_module_writes_while_it_is_read_and_tried_stays_out_of_it(exports):
    model, x = Noting(), torch.randn(2, 3)
    for _ in range(3):
        network = ss.trace(model, x)
    assert (model.calls, model.sizes, model.seen, float(model.total)) == (0, [0], {"rows": 0}, 0)
    assert model.history == [[]]
    assert not hasattr(model, "last")
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-5)


def test_a_module_that_is_as_it_was_runs_once_on_three_rows_and_its_program_not_at_all(exports, monkeypatch):
    rows: list[int] = []
    note = rows.append

    class Watched(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            note(x.shape[0])
            return super().forward(x).relu()

    model = Watched(3, 3)
    ss.trace(model, torch.zeros(1, 3))
    rows.clear()
    monkeypatch.setattr(Program, "forward", None)
    ss.trace(model, torch.randn(5, 3))
    assert (rows, len(exports)) == ([3], 1)


def test_statistics_of_batch_norms_and_counters_in_buffers_are_read_without_another_export(exports):
    class Named(nn.Sequential):  # torch's own is read without an export
        pass

    model, x = Named(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval(), torch.randn(4, 3)
    ss.trace(model, x)
    model[1].running_mean.add_(1)
    model[1].num_batches_tracked.add_(1)
    network = ss.trace(model, x)
    assert len(exports) == 1
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-5)
