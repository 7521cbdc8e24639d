"""Hooks are named, since none is called; those of torch itself and ours are not."""

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import splinescope as ss
from splinescope.network.watching.intercept import Hooked
from splinescope.network.watching.undisturbed import HookWarning, warn_of_hooks

LOG: list[Any] = []


def doubles(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    LOG.append(output)
    return output * 2


class Keeper:
    def keep(self, module: nn.Module, inputs: Any) -> None:
        LOG.append(inputs)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


@pytest.mark.parametrize("hook", [doubles, lambda *_: LOG.append(1), partial(doubles)])
def test_any_hook_is_named_and_not_called(hook: Any) -> None:
    model = network()
    model[0].register_forward_hook(hook)
    model[2].register_forward_pre_hook(Keeper().keep)
    LOG.clear()
    with pytest.warns(HookWarning, match=r"not called, those of 0, 2: .* the model without them"):
        read = ss.trace(model, torch.zeros(2, 2))
    with pytest.warns(HookWarning, match="those of 0, 2"):
        ss.local_complexity(model, torch.randn(4, 2))
    assert not LOG
    assert read.fingerprint() == ss.trace(unhooked(model), torch.zeros(2, 2)).fingerprint()


def unhooked(model: nn.Sequential) -> nn.Sequential:
    plain = network()
    plain.load_state_dict(model.state_dict())
    return plain


def test_a_hook_of_ours_is_not_named() -> None:
    """Another thread may watch the model meanwhile."""
    model = network()
    with warnings.catch_warnings(), Hooked(after=[(model[0], warn_of_hooks)]):
        warnings.simplefilter("error")
        ss.trace(model, torch.zeros(2, 2))


def test_hooks_of_torch_itself_are_part_of_the_model() -> None:
    model = network()
    nn.utils.spectral_norm(model[0])
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = ss.trace(model, torch.zeros(2, 2))
    x = torch.randn(5, 2)
    torch.testing.assert_close(read(x), model(x).double(), rtol=1e-5, atol=1e-6)


def test_a_hook_of_all_modules_is_named_and_not_called() -> None:
    """Torch's own modules would meet it too, in the middle of an export."""
    LOG.clear()
    handle = register_module_forward_hook(doubles)
    try:
        with pytest.warns(HookWarning, match="all modules"):
            read = ss.trace(network(), torch.zeros(2, 2))
        assert not LOG
        assert len(read.sites) == 1
        network()(torch.zeros(1, 2))
        assert LOG, "it is there again"
    finally:
        handle.remove()
