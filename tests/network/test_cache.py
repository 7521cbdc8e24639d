"""A module seen before is not exported again, and whatever changes what it does is noticed."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network import _network


class Scaled(nn.Module):
    """Bends at `at`, which no parameter holds; `gain` is hidden in an object."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map, self.last = nn.Linear(3, 5), nn.Linear(5, 2)
        self.at, self.hidden = 6.0, {"gain": 1.0}

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.map(x).clamp(0, self.at) * self.hidden["gain"])


@pytest.fixture
def exports(monkeypatch) -> list[nn.Module]:
    """Modules that were exported, in order."""
    seen: list[nn.Module] = []
    original = _network.export

    def counting(model: nn.Module, batch: Tensor):
        seen.append(model)
        return original(model, batch)

    monkeypatch.setattr(_network, "export", counting)
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
    for network in (first, second):
        torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-5)


def replace_last(model: Scaled) -> None:
    model.last = nn.Linear(5, 3)


def far_attribute(model: Scaled) -> None:
    model.at = 5.0  # which no probe row reaches


def hidden_attribute(model: Scaled) -> None:
    model.hidden["gain"] = 1.5  # in no plain attribute: the rows show it


def forward_of_its_own(model: Scaled) -> None:
    model.forward = lambda x: model.map(x)


@pytest.mark.parametrize(
    "change", [replace_last, far_attribute, hidden_attribute, forward_of_its_own, nn.Module.double, nn.Module.eval]
)
def test_changes_that_matter_are_noticed(change, exports):
    model, x = Scaled(), torch.randn(4, 3)
    ss.trace(model, x)
    change(model)
    network = ss.trace(model, x)
    assert len(exports) == 2
    x = 10 * x.to(model.map.weight.dtype)
    torch.testing.assert_close(network(x), model(x).double(), rtol=1e-5, atol=1e-4)


def test_another_input_or_output_is_another_network(exports):
    model = nn.Sequential(nn.ReLU())
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
