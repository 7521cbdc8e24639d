"""A module seen before is not exported again, and whatever changes what it does is noticed."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network import network
from splinescope.network.program import Program
from splinescope.network.reading.twin import _light_copy

FAR = [9.0]


class Scaled(nn.Module):
    """Bends at `at`, which no parameter holds; `gain` is hidden in an object."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map, self.last = nn.Linear(3, 5), nn.Linear(5, 2)
        self.at, self.limits, self.hidden = 6.0, {"low": [-7.0]}, SimpleNamespace(gain=1.0, far=9.0)
        self.far, self.nested = torch.tensor(9.0), [[[[9.0]]]]

    def forward(self, x: Tensor) -> Tensor:
        inner = self.map(x).clamp(0, self.at) * self.hidden.gain
        outer = self.kept(self.last(inner)).clamp(min=self.limits["low"][0])
        return torch.minimum(outer, self.far.to(x)).clamp(max=min(self.hidden.far, self.nested[0][0][0][0], FAR[0]))

    def kept(self, x: Tensor) -> Tensor:
        return x.clamp(max=9.0)


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


def far_attribute(model: Scaled) -> None:
    model.at = 5.0  # which no probe row reaches


def far_number_within(model: Scaled) -> None:
    model.limits["low"][0] = -6.5


def hidden_attribute(model: Scaled) -> None:
    model.hidden.gain = 1.5  # in an object: the rows show it


def forward_of_its_own(model: Scaled) -> None:
    model.forward = lambda x: model.map(x)


def far_tensor(model: Scaled) -> None:
    model.far = torch.tensor(8.0)


def far_tensor_in_place(model: Scaled) -> None:
    model.far.data.fill_(8.0)


def far_in_an_object(model: Scaled) -> None:
    model.hidden.far = 8.0


def far_in_nested_lists(model: Scaled) -> None:
    model.nested[0][0][0][0] = 8.0


def far_global(model: Scaled) -> None:
    FAR[0] = 8.0


def other_method(model: Scaled) -> None:
    Scaled.kept = lambda self, x: x.clamp(max=8.0)


@pytest.mark.parametrize(
    "change",
    [
        replace_last,
        far_attribute,
        far_number_within,
        hidden_attribute,
        forward_of_its_own,
        far_tensor,
        far_tensor_in_place,
        far_in_an_object,
        far_in_nested_lists,
        far_global,
        other_method,
        nn.Module.double,
        nn.Module.eval,
    ],
)
def test_changes_that_matter_are_noticed(change, exports, monkeypatch):
    monkeypatch.setitem(globals(), "FAR", [9.0])
    monkeypatch.setattr(Scaled, "kept", Scaled.kept)  # put back what a change replaces
    model, x = Scaled(), torch.randn(4, 3)
    ss.trace(model, x)
    change(model)
    network = ss.trace(model, x)
    assert len(exports) == 2
    x = 10 * x.to(model.map.weight.dtype)
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-4)


def test_what_no_name_tells_shows_on_the_slice_that_is_tiled(exports, monkeypatch):
    """A number of another file, which no random row reaches: tiled anew, since the slice does reach it."""
    elsewhere = ModuleType("elsewhere")
    elsewhere.far = 30.0
    monkeypatch.setitem(globals(), "ELSEWHERE", elsewhere)

    class Capped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).clamp(max=ELSEWHERE.far)  # noqa: F821

    model = Capped(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0]]))
        model.bias.zero_()
    line = ss.Slice.segment([-60.0, 0.0], [60.0, 0.0])
    ss.tessellate(model, line)
    elsewhere.far = 10.0
    tiling = ss.tessellate(model, line)
    assert len(exports) == 2
    assert float(tiling.network(torch.tensor([[60.0, 0.0]]))) == 10.0


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


def test_networks_of_one_module_keep_their_own_program(exports):
    model, x = Scaled(), torch.randn(4, 3)
    before = ss.trace(model, x).program()
    old = before.forward(x)
    with torch.no_grad():
        model.map.weight.mul_(2)
    after = ss.trace(model, x).program()
    assert torch.equal(before.forward(x), old)
    assert before.fingerprint != after.fingerprint
    assert len(exports) == 1


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
        self.calls, self.sizes, self.seen = 0, [0], {"rows": 0}
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.sizes.append(len(x))
        self.seen["rows"] = len(x)
        self.total += 1
        self.last = x
        return self.again(self.map(x).relu())


class Deep(Noting):
    """The same with an attribute that a light copy would share."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[list[int]] = [[]]

    def forward(self, x: Tensor) -> Tensor:
        self.history[0].append(len(x))
        return super().forward(x)


@pytest.mark.parametrize("kind", [Noting, Deep])
def test_what_a_module_writes_while_it_is_read_and_tried_stays_out_of_it(kind, exports):
    model, x = kind(), torch.randn(2, 3)
    for _ in range(3):
        network = ss.trace(model, x)
    assert (model.calls, model.sizes, model.seen, float(model.total)) == (0, [0], {"rows": 0}, 0)
    assert getattr(model, "history", [[]]) == [[]]
    assert not hasattr(model, "last")
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-5)


def test_a_light_copy_shares_what_a_deep_copy_shares():
    """One module at two places is one in the copy, parameters are the model's own, user hooks are not there."""
    model = Noting()
    model.register_buffer("same", model.total)
    model.map.register_forward_hook(lambda module, inputs, output: output + 1)
    for share in (True, False):
        twin = _light_copy(model, share)
        assert twin.map is twin.again is not model.map
        assert twin.map.weight is model.map.weight
        assert (twin.total is model.total) == share
        assert twin.same is twin.total
        assert not twin.map._forward_hooks
        assert list(twin.state_dict()) == list(model.state_dict())
    assert _light_copy(Deep(), False) is None


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


def test_a_module_whose_code_asks_for_the_batch_size_is_read_anew(exports):
    limit = [10**15]

    class Asking(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if x.shape[0] < limit[0] else x

    model = Asking(3, 3)
    ss.trace(model, torch.zeros(1, 3))
    limit[0] = 100
    with pytest.raises(ss.UnsupportedModelError, match="on a batch of 100 rows"):
        ss.trace(model, torch.zeros(1, 3))


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
