"""Hooks that may change what a module returns are named, since none is called; those that watch are let alone."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import splinescope as ss

LOG: list[Any] = []


def doubles(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def sometimes(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor | None:
    LOG.append(output)
    if output.sum() > 0:
        return output.add(1)
    return None


def in_place(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
    output.add_(1.0)


def watches(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
    LOG.append(output.shape)


class Keeper:
    def keep(self, module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        self.last = output


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


@pytest.mark.parametrize(
    "hook",
    [
        doubles, sometimes, lambda m, i, o: -o, lambda m, i, o: LOG.append(1) or o,
        lambda m, i, o: o * 2 if LOG else None, in_place,
    ],
)  # fmt: skip
def test_a_hook_that_may_change_an_output_is_named(hook: Any) -> None:
    model = network()
    model[0].register_forward_hook(hook)
    with pytest.warns(ss.network.HookWarning, match=r"those of 0 may return something else"):
        ss.trace(model, torch.zeros(2, 2))
    with pytest.warns(ss.network.HookWarning, match="the model without them"):
        ss.local_complexity(model, torch.randn(4, 2))


@pytest.mark.parametrize(
    "hook", [watches, Keeper().keep, lambda *_: LOG.append(1), lambda m, i, o: LOG.extend([o.shape])]
)
def test_a_hook_that_only_watches_is_neither_called_nor_named(hook: Any) -> None:
    model = network()
    model[0].register_forward_hook(hook)
    LOG.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ss.trace(model, torch.zeros(2, 2))
    assert not LOG


def test_hooks_of_torch_itself_are_part_of_the_model() -> None:
    model = network()
    nn.utils.spectral_norm(model[0])
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = ss.trace(model, torch.zeros(2, 2))
    x = torch.randn(5, 2)
    torch.testing.assert_close(read(x), model(x).double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hook", [doubles, watches])
def test_a_hook_of_all_modules_is_named_and_not_called(hook: Any) -> None:
    """Torch's own modules would meet it too, in the middle of an export."""
    LOG.clear()
    handle = register_module_forward_hook(hook)
    try:
        if hook is doubles:
            with pytest.warns(ss.network.HookWarning, match="all modules"):
                read = ss.trace(network(), torch.zeros(2, 2))
        else:
            read = ss.trace(network(), torch.zeros(2, 2))
        assert not LOG
        assert len(read.sites) == 1
        network()(torch.zeros(1, 2))
        assert hook is doubles or LOG, "it is there again"
    finally:
        handle.remove()
