"""Finding the sites of any torch module by its own forward pass, and reading them on a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...support.checks import check_module, running_on
from ...support.derivatives import plain_kernels
from ...support.errors import UnsupportedModelError
from .. import SplineNetwork
from ..ops.bend import Bend, Given, called
from ..ops.registry import Operation
from ..outputs import Picked, leaves_of, one_tensor
from ..program import Site
from ..readable import check_readable, check_statistics, floating_like, unwrap
from .calls import RoundsOrJumps, Watch, module_paths, without_weight_gradients
from .undisturbed import undisturbed, warn_of_hooks

Forward = Callable[[Any, Tensor], Any]
"""How to call a model on a batch: `(model, x) -> anything`."""

Visit = Callable[[int, Tensor], None]
"""Called with a site's index and its state (or cuts), the batch axis first."""


@contextlib.contextmanager
def sites_of(model: nn.Module | SplineNetwork, example: Tensor, forward: Forward | None) -> Iterator[Sites]:
    """The sites of a model, found on three different rows near each other; eval mode and hooks are put back."""
    if isinstance(model, SplineNetwork):
        model = model.module
    check_module(model)
    model = unwrap(model)
    warn_of_hooks(model)
    check_readable(model)
    check_statistics(model)
    with undisturbed(model):
        yield Sites(model, example, forward)


_NOTHING = contextlib.nullcontext()


class _Call(NamedTuple):
    """One call that bends, as first seen: its op, the number of its site, and the axis along which rows lie."""

    op: str
    site: int
    axis: int


_AMPLIFIED = 1000.0  # roundings of all layers together, over what a nudge of the input alone becomes


class Sites:
    """The sites of a torch module, readable on batches; made by `sites_of`.

    Attributes:
        sites: In the order in which they run.
        calls: Per call that bends, its site and the axis of its rows; None if it belongs to none.
        hinges: Per site, how many units each of its numbers has.
        winner: Per site, whether its state is the place of a winner (a max over a window).
        affine: Per site, whether it and all before it are affine in the input as long as no fold is crossed.
        dtype: Of the model; inputs must have it.
        device: Of the model.
    """

    def __init__(self, model: nn.Module, example: Tensor, forward: Forward | None) -> None:
        self.model = model
        self.forward: Forward = forward or (lambda model, x: model(x))
        like = floating_like(model, example)
        self.dtype, self.device = like.dtype, like.device
        example = example.to(self.device, self.dtype)
        with running_on(example):
            seen, output = self._look(example.clone())  # a model may change its input in place
        alone, _ = self._look(example[:1].clone())
        if [s.op for s in seen] != [s.op for s in alone]:
            raise UnsupportedModelError(
                "The model calls different activations for one row and for three; it has no fixed sites."
            )
        reached = self._reached(example, len(seen))
        calls: list[_Call | None] = []
        sites: list[Site] = []
        winner: list[bool] = []
        hinges: list[int] = []
        nudged: list[_Seen] = []  # one row moved by rounding, looked at where rows seem to depend on each other
        for place, (three, one, used) in enumerate(zip(seen, alone, reached, strict=True)):
            axis = _row_axis(three.state, one.state)
            if not used or three.state is None or one.state is None or axis is None or three.is_ending(output):
                calls.append(None)
                continue
            rows = rows_first(three.state, axis, 3)
            if not _same_rows(rows[:1], rows_first(one.state, axis, 1), three):
                nudged = nudged or self._look(example[:1] * (1 + 4 * torch.finfo(self.dtype).eps))[0]
                _check_chaos(three, one, nudged[place], rows[:1], axis)
            calls.append(_Call(three.op, len(sites), axis))
            units = round(rows[0].numel() * (1 - three.idle))
            sites.append(Site(three.path, three.name, three.shape(one, rows), units, len(sites) + 1))
            winner.append(three.bend.winner)
            hinges.append(three.hinges)
        if not sites:
            raise UnsupportedModelError(
                "No activation was seen in the model's forward pass. Known are the functions of torch and "
                "torch.nn.functional (relu, gelu, silu, max_pool2d, ...)."
            )
        self.calls, self.hinges = calls, hinges
        self.sites, self.winner = tuple(sites), tuple(winner)
        self.affine = self._affine(example)

    def neurons(self, site: int, near: Tensor) -> Tensor:
        """`[n]` neurons of a site among its units `[n, ...]`, of which some are marked: those of any marked unit."""
        return near.reshape(len(near), -1, self.hinges[site]).any(2).sum(1)

    def run(
        self, x: Tensor, visit: Visit, *, cuts: bool = False, within: contextlib.AbstractContextManager[Any] = _NOTHING
    ) -> None:
        """Run a batch; visit every site with its state `[N, ...]`, or its cuts if asked; the model alone `within`."""
        number = 0

        def see(operation: Operation, given: Given) -> Any:
            nonlocal number
            call = self.calls[number] if number < len(self.calls) else None
            number += 1
            if call is None:
                return None
            bend, result = bend_of(operation), None
            if cuts:
                value = bend.cuts(given)
            elif bend.both is not None:
                value, result = bend.both(given)
            else:
                value = bend.state(given)
            if operation.name != call.op or value is None:
                raise UnsupportedModelError(
                    f"The model's activations depend on its input: {call.op} was at {self.sites[call.site].path!r}, "
                    f"now {operation.name}."
                )
            visit(call.site, value if cuts and bend.winner else rows_first(value, call.axis, len(x)))
            return result

        with Watch(see), within:
            self.forward(self.model, x)
        self.check_count(number)

    def check_count(self, number: int) -> None:
        """Refuse a pass of another number of calls than at first."""
        if number != len(self.calls):
            raise UnsupportedModelError(
                f"The model's activations depend on its input: {len(self.calls)} calls at first, now {number}."
            )

    def _affine(self, x: Tensor) -> tuple[bool, ...]:
        """Where second derivatives by the input are exactly 0 and no call before rounds or jumps: affine and folded."""
        heights: list[Tensor] = [x.new_zeros(())] * len(self.sites)
        smooth = [True] * len(self.sites)
        generator, noticed = torch.Generator().manual_seed(0), RoundsOrJumps(self.dtype)

        def random_like(value: Tensor) -> Tensor:
            return torch.randn(value.shape, generator=generator).to(value)

        def visit(site: int, z: Tensor) -> None:
            heights[site] = (z * random_like(z)).sum()
            smooth[site] = not noticed.seen

        def straight(height: Tensor) -> bool:
            try:
                (slope,) = torch.autograd.grad(height, rows, create_graph=True)
                if not slope.requires_grad:
                    return True
                (bend,) = torch.autograd.grad(slope, rows, random_like(slope), retain_graph=True, allow_unused=True)
            except RuntimeError:  # no (second) derivative
                return False
            return bend is None or not bool(bend.any())

        rows = x.clone().requires_grad_()
        with torch.enable_grad(), plain_kernels(), without_weight_gradients(self.model):
            try:
                self.run(rows * 1, visit, cuts=True, within=noticed)  # a leaf could not be changed in place
            except (RuntimeError, UnsupportedModelError):  # it does not run, or runs otherwise, with gradients
                return (False,) * len(self.sites)
            first_bent = len(heights) if straight(torch.stack(heights).sum()) else 0
            while first_bent < len(heights) and straight(heights[first_bent]):
                first_bent += 1
        return tuple(site < first_bent and smooth[site] for site in range(len(heights)))

    def _reached(self, x: Tensor, count: int) -> list[bool]:
        """Which calls lie on the way to the output, where one of several was picked: by its gradients."""
        if not isinstance(self.model, Picked) or self.model.output is None:
            return [True] * count
        entering: list[list[Tensor]] = []

        def see(operation: Operation, given: Given) -> None:
            entering.append([tensor for tensor in given.tensors() if tensor.requires_grad])

        with torch.enable_grad(), plain_kernels(), Watch(see):
            output = one_tensor(self.forward(self.model, x.clone().requires_grad_() * 1)).sum()
        try:
            given = [tensor for call in entering for tensor in call]
            slopes = torch.autograd.grad(output, given, allow_unused=True) if given else ()
        except RuntimeError as error:
            raise UnsupportedModelError(
                f"Which activations lead to the output {self.model.output!r} is told by its gradients, and torch has "
                f"none here: {str(error).splitlines()[0]}"
            ) from error
        leads = {id(tensor) for tensor, slope in zip(given, slopes, strict=True) if slope is not None}
        return [any(id(tensor) in leads for tensor in call) for call in entering]

    def _look(self, x: Tensor) -> tuple[list[_Seen], Any]:
        seen: list[_Seen] = []

        def see(operation: Operation, given: Given) -> None:
            bend = bend_of(operation)
            state = bend.state(given)
            kept = None if state is None else state.clone()
            idle = 0.0 if state is None else bend.idle(given)
            seen.append(_Seen(operation, called(operation.name, given), running(), bend, kept, idle))

        def saw(result: Any) -> None:
            seen[-1].result = result

        def hides(name: str) -> None:
            hidden.append(f"{running() or 'model'} ({name})")

        hidden: list[str] = []

        def running() -> str:
            return paths[-1] if paths else ""

        paths: list[str]
        with module_paths(self.model) as paths, Watch(see, saw, hides):
            output = self.forward(self.model, x)
        if hidden:
            raise UnsupportedModelError(
                f"The activations of recurrent layers run inside one call, where they cannot be counted: "
                f"{', '.join(dict.fromkeys(hidden))}. smooth.block(model, path, x) is a part without them."
            )
        return seen, output


@dataclass
class _Seen:
    operation: Operation
    name: str
    path: str
    bend: Bend
    state: Tensor | None
    idle: float
    result: Any = None

    @property
    def op(self) -> str:
        return self.operation.name

    @property
    def hinges(self) -> int:
        """At how many places each number bends: the last axis of `state`, if there are several."""
        result, state = self.result, self.state
        several = isinstance(result, Tensor) and state is not None and state.dim() == result.dim() + 1
        return int(state.shape[-1]) if several and state is not None and not self.bend.winner else 1

    def is_ending(self, output: Any) -> bool:
        """Whether it may end a network and the model returns its result as it is: it rescales the last values."""
        return (
            self.operation.ending is not None
            and isinstance(self.result, Tensor)
            and any(isinstance(o, Tensor) and o.data_ptr() == self.result.data_ptr() for _, o in leaves_of(output))
        )

    def shape(self, one: _Seen, rows: Tensor) -> tuple[int, ...]:
        """Shape of the call's result for one row; that of the state if the rows cannot be told in it."""
        results = [seen.result[0] if isinstance(seen.result, tuple) else seen.result for seen in (self, one)]
        axis = _row_axis(*(result if isinstance(result, Tensor) else None for result in results))
        if axis is None or self.bend.own_shape:
            return tuple(rows.shape[1:])
        return tuple(rows_first(results[0], axis, 3).shape[1:])


def bend_of(operation: Operation) -> Bend:
    """The bend of an operation that is known to have one."""
    assert operation.bend is not None
    return operation.bend


def rows_first(state: Tensor, axis: int, rows: int) -> Tensor:
    """`[rows, ...]` from a tensor whose `axis` holds the rows (or rows times something, rows outermost)."""
    state = state.movedim(axis, 0)
    return state if state.shape[0] == rows else state.reshape(rows, state.shape[0] // rows, *state.shape[1:])


def _row_axis(three: Tensor | None, one: Tensor | None) -> int | None:
    """The axis that is three times as long for three rows as for one."""
    if three is None or one is None or three.dim() != one.dim():
        return None
    longer = [a for a in range(three.dim()) if three.shape[a] == 3 * one.shape[a]]
    same = [a for a in range(three.dim()) if three.shape[a] == one.shape[a]]
    return longer[0] if len(longer) == 1 and len(same) == three.dim() - 1 else None


def _same_rows(of_three: Tensor, of_one: Tensor, seen: _Seen) -> bool:
    """Whether a row's pre-activation is the same alone and among others, up to rounding."""
    if seen.bend.winner:
        return True
    scale = of_one.abs().max().double() if of_one.numel() else 1.0
    tolerance = 64 * torch.finfo(of_one.dtype).eps ** 0.75 * scale  # products of other shapes round otherwise
    return not bool(((of_three - of_one).abs() > tolerance).any())  # NaN passes: it is named later


def _check_chaos(three: _Seen, one: _Seen, nudged: _Seen, row: Tensor, axis: int) -> None:
    """A very deep network may amplify rounding itself: then a nudge of the input moves the row about as much."""
    assert one.state is not None
    of_one = rows_first(one.state, axis, 1)
    moved = 0.0 if nudged.state is None else float((rows_first(nudged.state, axis, 1) - of_one).abs().max())
    if float((row - of_one).abs().max()) > _AMPLIFIED * moved:
        raise UnsupportedModelError(
            f"{three.path or 'model'} ({three.op}): a row's pre-activation depends on the other rows of the batch, "
            "so a point has no local complexity of its own."
        )
