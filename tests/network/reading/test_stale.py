"""Whatever a module holds, a change of it that acts between all rows that anybody compares is seen by every tiling."""

import contextvars
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network import network

BEFORE, AFTER = 1.3, 1.7
PLACE = BEFORE
CONTEXT = contextvars.ContextVar("CONTEXT", default=BEFORE)


def bump(x: Tensor, at: Any) -> Tensor:
    """0 but on (at, at + 0.1)."""
    z = x[:, :1] - at
    return z.relu() - 2 * (z - 0.05).relu() + (z - 0.1).relu()


class Bumped(nn.Module):
    """One bump, at a place that only `held` knows; called, unless `how` reads it."""

    def __init__(self, held: Any, how: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.map, self.held, self.how = nn.Linear(2, 1), held, how

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x) + (self.held(x) if self.how is None else bump(x, self.how(self.held)))


class Helper:
    def __init__(self, at: Any = BEFORE) -> None:
        self.at = at

    def __call__(self, x: Tensor) -> Tensor:
        return bump(x, self.at)

    @property
    def place(self) -> Any:
        return self.at


class Replaced(Helper):
    """A class of which a test replaces a method."""


class OfClass(Helper):
    shared = BEFORE

    def __call__(self, x: Tensor) -> Tensor:
        return bump(x, self.shared)


class Slots:
    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = BEFORE


class Deep(Helper):
    def __init__(self) -> None:
        self.at = SimpleNamespace(a=[{"b": (deque([[[[[BEFORE]]]]]),)}])

    def __call__(self, x: Tensor) -> Tensor:
        return bump(x, self.at.a[0]["b"][0][0][0][0][0][0])


def closed() -> tuple[Callable[[Tensor], Tensor], Callable[[Any], None]]:
    at = BEFORE

    def move(place: float) -> None:
        nonlocal at
        at = place

    return lambda x: bump(x, at), move


def keyword(x: Tensor, *, at: float = BEFORE) -> Tensor:
    return bump(x, at)


def setting(name: str) -> Callable[[Any, Any], None]:
    return lambda held, to: setattr(held, name, to)


def fresh(function: FunctionType) -> FunctionType:
    """Of its own code and defaults, which a test may change."""
    made = FunctionType(function.__code__, globals(), closure=function.__closure__)
    made.__kwdefaults__ = dict(function.__kwdefaults__ or {})
    return made


def case(name: str, make: Callable[[], Any], change: Callable[[Any, Any], Any], how: Any = None) -> Any:
    return pytest.param(make, change, how, id=name)


def of_class(held: Any, to: float) -> None:
    OfClass.shared = to


def of_method(held: Any, to: float) -> None:
    Replaced.place = property(lambda self: to)


def of_globals(held: Any, to: float) -> None:
    globals()["PLACE"] = to


def of_code(held: Any, to: float) -> None:
    held.__code__ = (lambda x: bump(x, 1.7)).__code__


def of_linear(held: Any, to: float) -> None:
    held[0].bias.data.fill_(to)


CLOSED, MOVE = closed()

CASES = [
    case("attribute of a callable object", Helper, setting("at")),
    case("method of a class", Replaced, of_method, lambda held: held.place),
    case("class attribute of a callable object", OfClass, of_class),
    case("deep inside an object", Deep, lambda held, to: held.at.a[0]["b"][0][0][0][0][0].__setitem__(0, to)),
    case("keyword of a partial", lambda: partial(bump, at=BEFORE), lambda held, to: held.keywords.update(at=to)),
    case("closure cell of a function", lambda: CLOSED, lambda held, to: MOVE(to)),
    case("global of a function", lambda: lambda x: bump(x, PLACE), of_globals),
    case("default of a keyword", lambda: fresh(keyword), lambda held, to: held.__kwdefaults__.update(at=to)),
    case("code of a function", lambda: fresh(lambda x: bump(x, 1.3)), of_code),
    case("element of a deque", lambda: deque([BEFORE]), lambda held, to: held.__setitem__(0, to), lambda held: held[0]),
    case("slot of an object", Slots, setting("at"), lambda held: held.at),
    case("numpy array", lambda: Helper(np.array(BEFORE)), lambda held, to: held.at.fill(to), lambda h: float(h.at)),
    case("tensor in a deque", lambda: deque([torch.tensor(BEFORE)]), lambda h, to: h[0].fill_(to), lambda h: h[0]),
    case("weights of a module in a list", lambda: [nn.Linear(1, 1)], of_linear, lambda held: held[0].bias),
    case("context variable", lambda: CONTEXT, lambda held, to: held.set(to), lambda held: held.get()),
    case("environment", lambda: os.environ, lambda held, to: held.update(PLACE=str(to)),
         lambda held: float(held.get("PLACE", BEFORE))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "change", "how"), CASES)
def test_a_change_between_the_compared_rows_is_seen(make, change, how, monkeypatch):
    monkeypatch.setitem(globals(), "PLACE", BEFORE)
    monkeypatch.setattr(OfClass, "shared", BEFORE)
    monkeypatch.setattr(Replaced, "place", Helper.place)
    monkeypatch.setenv("PLACE", str(BEFORE))
    torch.manual_seed(0)
    line = ss.Slice.segment([-3.0, 0.0], [3.0, 0.0])
    model = Bumped(make(), how)
    ss.tessellate(model, line)

    def changed() -> ss.Tiling:
        change(model.held, AFTER)
        x = torch.tensor([[AFTER + 0.05, 0.0], [BEFORE + 0.05, 0.0]])
        with torch.no_grad():
            there = model(x) - model.map(x)
        assert float(there[0]) == pytest.approx(0.05, abs=1e-6), "the change moves the bump"
        return ss.tessellate(model, line)

    tiling = contextvars.copy_context().run(changed)
    x = torch.tensor([[AFTER + 0.05, 0.0], [1.5, 0.0]], dtype=torch.float64)
    affine = x @ model.map.weight.detach().double().T + model.map.bias.detach().double()
    rise = tiling.program("a test").forward(x) - affine
    torch.testing.assert_close(rise[:, 0], torch.tensor([0.05, 0.0], dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize("make", [Helper, lambda: partial(bump, at=BEFORE), Deep])
def test_what_is_held_and_does_not_change_is_read_once(make, monkeypatch):
    model, x = Bumped(make()), torch.zeros(1, 2)
    first = ss.trace(model, x).fingerprint()
    monkeypatch.setattr(network, "export", None)
    model.map.weight.data.mul_(2)
    assert ss.trace(model, x).fingerprint() != first
