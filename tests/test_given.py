"""What is given by mistake is refused in words that name the argument."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

pytest.importorskip("matplotlib").use("Agg")

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
X, Y, WANTED = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3, torch.zeros(12, 3)
TILED = ss.tessellate(NET, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))


def taking_tilings() -> list[tuple[Any, str]]:
    """Public functions of every part whose first argument is a tiling."""
    found = []
    for part in ("tiling", "landscape", "generative", "plot"):
        module = importlib.import_module(f"splinescope.{part}")
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                first = next(iter(inspect.signature(function).parameters.values()), None)
                if first is not None and first.annotation == "Tiling":
                    found.append(pytest.param(function, first.name, id=f"{part}.{name}"))
    return found


@pytest.mark.parametrize(("function", "name"), taking_tilings())
def test_what_is_no_tiling_is_refused_by_name(function: Callable[..., Any], name: str, tmp_path) -> None:
    for given in (None, NET, "tiling.npz", ss.trace(NET, X)):
        others = [
            tmp_path / "page.html" if p.name == "path" else ["1"]
            for p in list(inspect.signature(function).parameters.values())[1:]
            if p.default is inspect.Parameter.empty
        ]
        with pytest.raises(ss.InputError, match=rf"^{name} must be a Tiling.*got {type(given).__name__}"):
            function(given, *others)
    assert not any(tmp_path.iterdir())


WRONG: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "initialize_ generator": (
        lambda g: ss.initialize_(copy.deepcopy(NET), X, method="quantile", generator=g),
        [0, "seed"],
    ),
    "initialize_ x": (lambda g: ss.initialize_(copy.deepcopy(NET), g), [np.array(["a", "b"]), 3, X * 1j]),
    "trainer_callback": (ss.train.trainer_callback, [None, "monitor", NET]),
    "lightning_callback": (ss.train.lightning_callback, [None, "monitor", NET]),
}
"""Function and argument: a call with what is given, and what it must refuse."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_refused_in_words(name: str) -> None:
    call, wrong = WRONG[name]
    for given in wrong:
        with pytest.raises(ss.InputError, match=r"\w+ .*got|\bmust\b|give either") as refused:
            call(given)
        assert "\n" not in str(refused.value) or isinstance(given, torch.Tensor)
