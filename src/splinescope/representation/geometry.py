"""A batch through the depth of a network: rank, angles, lengths, activity and the odd point, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..network.outputs import SeveralOutputs, one_tensor
from ..network.program import Fold, Tournament, walk
from ..network.readable import check_readable
from ..network.watching.intercept import Hooked
from ..support.checks import as_rows, check_choice, check_module, no_batch_axis
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import InputError, UnsupportedModelError
from .measures import LayerGeometry, OddPoint, measure

_ODD_QUANTITIES = tuple(field.name for field in fields(OddPoint) if field.name != "index")
QUANTITIES: tuple[str, ...] = (
    *("rank", "stable_rank", "effective_rank", "mean_angle", "orthogonality_gap", "sparsity"),
    *_ODD_QUANTITIES,
)
"""Numbers of a place that `series` and `plot_depth` know by name."""


@dataclass(frozen=True, repr=False)
class RepresentationGeometry(Result):
    """What `representation_geometry` returns: one `LayerGeometry` for each place, in order of execution.

    Attributes:
        layers: The places, from the input to the output.
        method: "trace" (non-linearities of the traced network, in float64) or "hooks" (leaf modules as they ran).
    """

    layers: tuple[LayerGeometry, ...]
    method: Literal["trace", "hooks"]
    certainty = "exact"
    plot = drawn("representation.plot_overview")

    def __repr__(self) -> str:
        points = self.layers[0].n if self.layers else 0
        ranks = f", ranks {' '.join(str(layer.rank()) for layer in self.layers)}" if 0 < len(self) <= 12 else ""
        return f"RepresentationGeometry({points} points at {len(self)} places by {self.method}{ranks})"

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> LayerGeometry:
        return self.layers[index]

    def __iter__(self) -> Iterator[LayerGeometry]:
        return iter(self.layers)

    def series(self, quantity: str | Callable[[LayerGeometry], float]) -> np.ndarray:
        """`[layers]` one number for each place: a name in `QUANTITIES`, or a function of a layer.

        Those of the odd point ("norm_ratio", "angle", ...) are nan where there is none.
        """
        if callable(quantity):
            return np.array([quantity(layer) for layer in self.layers], dtype=np.float64)
        check_choice(quantity, "quantity", QUANTITIES)
        if quantity == "rank":
            return np.array([layer.rank() for layer in self.layers], dtype=np.float64)
        of_odd_point = quantity in _ODD_QUANTITIES
        places = [layer.odd if of_odd_point else layer for layer in self.layers]
        return np.array([getattr(place, quantity, np.nan) for place in places], dtype=np.float64)

    def summary(self) -> str:
        """A table, one line for each place."""
        head = "layer op numbers rank stable effect. angle gap sparse odd ratio at cluster"
        rows = [tuple(head.split())]
        for layer in self.layers:
            odd, place = layer.odd, (_shorten(layer.name, 28), _shorten(layer.op, 16), str(layer.d), str(layer.rank()))
            ranks = (f"{layer.stable_rank:.2f}", f"{layer.effective_rank:.2f}", f"{layer.mean_angle:.1f}")
            apart = ("-", "-", "-", "-")
            if odd is not None:
                apart = (f"{odd.index}", f"{odd.norm_ratio:.2f}", f"{odd.angle:.1f}", f"{odd.cluster_angle:.1f}")
            rows.append((*place, *ranks, f"{layer.orthogonality_gap:.3f}", f"{layer.sparsity:.1%}", *apart))
        return f"{table(rows)}\nAngles in degrees; odd: the point furthest from the mean. {self.assurance}"

    def records(self) -> list[dict[str, Any]]:
        """One JSON-ready dictionary of numbers for each place."""
        return [
            {
                "name": layer.name,
                "op": layer.op,
                "points": layer.n,
                "numbers": layer.d,
                "rank": layer.rank(),
                "rank_at_1e-2": layer.rank(1e-2),
                "stable_rank": layer.stable_rank,
                "effective_rank": layer.effective_rank,
                "mean_angle": layer.mean_angle,
                "orthogonality_gap": layer.orthogonality_gap,
                "sparsity": layer.sparsity,
                "odd_point": None if layer.odd is None else vars(layer.odd),
            }
            for layer in self.layers
        ]


def representation_geometry(
    model: nn.Module | SplineNetwork, x: Any, *, method: Literal["auto", "trace", "hooks"] = "auto",
    keep_gram: bool = True, seed: int = 0,
) -> RepresentationGeometry:  # fmt: skip
    r"""Follow a batch through the depth of a network.

    At each place, with `H` the `[n, d]` representation (flattened): singular values and ranks, lengths,
    Gram matrix and pairwise angles, orthogonality gap $\|HH^T/\mathrm{tr} - I/n\|_F$, the odd point and the
    cluster of the others, activity of each unit, sparsity, and a random projection to the plane.

    Args:
        model: Any module that maps a batch tensor to a tensor, or a traced network. Left as found: parameters,
            running statistics, mode, hooks, random state.
        x: `[n, ...]`, tensor or array, at least 2 rows; brought to the model's own precision and device.
        method: "trace" reads the places from the traced network: input, every non-linearity (functional ones
            too), output. "hooks" runs the model as it is, in its own mode, and measures the output of every
            leaf module (but `nn.Identity`): the way for batch norm in train mode and for what cannot be traced.
            "auto" traces models in evaluation mode and falls back to hooks where that fails.
        keep_gram: Keep the `[n, n]` Gram matrix of every place.
        seed: Of the projection's plane.

    Returns:
        A `RepresentationGeometry`. Exact up to rounding, except the projection, which is random.

    Cost: one forward pass and O(n^2 d) a place. Only one representation is held at a time beyond the forward
    pass's own; kept are O(n + d) numbers a place, and `n^2` with `keep_gram`.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> geometry = representation_geometry(net, torch.randn(5, 4), method="hooks")
        >>> [layer.name for layer in geometry]
        ['input', '0', '1', '2']
    """
    check_choice(method, "method", ("auto", "trace", "hooks"))
    if not isinstance(model, SplineNetwork):
        check_module(model)
    x = as_rows(x, "x")
    if x.ndim < 2 or len(x) < 2:
        raise InputError(f"x must be a tensor or array [n, ...] with n >= 2, got {tuple(x.shape)}.")
    if isinstance(model, SplineNetwork) and tuple(x.shape[1:]) != tuple(model.input_shape):
        hint = no_batch_axis(x.shape, model.input_shape, "x")
        raise InputError(
            f"x must have shape (n, {', '.join(map(str, model.input_shape))}), got {tuple(x.shape)}{hint}."
        )
    if not x.is_floating_point():
        raise InputError(f"x must hold floating-point numbers, got {x.dtype}; give the part after an embedding.")
    layers: list[LayerGeometry] = []

    def record(name: str, op: str, value: Tensor) -> None:
        layers.append(measure(name, op, value, keep_gram=keep_gram, seed=seed))

    traced = _traced(model, x, method)
    if traced is not None:
        _by_trace(traced, x, record)
        return RepresentationGeometry(tuple(layers), "trace")
    assert isinstance(model, nn.Module)
    _by_hooks(model, x, record)
    return RepresentationGeometry(tuple(layers), "hooks")


def _traced(model: nn.Module | SplineNetwork, batch: Tensor, method: str) -> SplineNetwork | None:
    """The traced network, or None where hooks are the way."""
    if isinstance(model, SplineNetwork):
        return model
    if method == "hooks" or (method == "auto" and model.training):
        return None
    try:
        return trace(model, batch)
    except SeveralOutputs:
        raise
    except UnsupportedModelError:
        if method == "trace":
            raise
        return None


Record = Callable[[str, str, Tensor], None]


def _by_trace(network: SplineNetwork, batch: Tensor, record: Record) -> None:
    """Run the steps one by one; a max over a window is a tournament of folds, of which the last one counts."""
    program = network.program()
    stages = {name for step in program.steps if isinstance(step, Tournament) for name, _ in step.stages}
    stages -= {step.final for step in program.steps if isinstance(step, Tournament)}
    values = {program.input: batch.detach().to("cpu", torch.float64)}
    record("input", "input", values[program.input])
    with torch.no_grad():
        for step, _, output in walk(program.steps, values, {program.output}):
            if isinstance(step, Fold) and step.output not in stages:
                record(step.site.path or step.output, step.site.op, output)
    if not (program.folds and program.folds[-1].output == program.output):
        record("output", "output", values[program.output])


def _by_hooks(model: nn.Module, batch: Tensor, record: Record) -> None:
    check_readable(model, quantized=True)
    batch = batch.to(next((p for p in model.parameters() if p.is_floating_point()), batch))
    record("input", "input", batch)
    last: list[Tensor] = []

    def hook(name: str, op: str) -> Callable[[nn.Module, Any, Any], None]:
        def after(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if _is_representation(output, len(batch)):
                record(name, op, output)
                last[:] = [output]

        return after

    leaves = [
        (name, module)
        for name, module in model.named_modules()
        if not any(True for _ in module.children()) and not isinstance(module, nn.Identity)
    ]
    hooks = Hooked(after=[(m, hook(name or "output", type(m).__name__)) for name, m in leaves])
    try:
        with hooks, _left_as_found(model), torch.no_grad():
            output = one_tensor(model(batch.clone()))  # it may write over its input
    except RuntimeError as error:
        raise InputError(f"model failed on a batch of shape {tuple(batch.shape)}: {error}") from error
    if _is_representation(output, len(batch)) and not (last and last[0] is output):
        record("output", "output", output)
    elif not last:
        raise InputError(
            f"model must give, or have a module that gives, a tensor [{len(batch)}, ...], got shape "
            f"{tuple(output.shape)}."
        )


def _is_representation(value: Any, n: int) -> bool:
    return isinstance(value, Tensor) and value.ndim >= 2 and len(value) == n and value.is_floating_point()


@contextmanager
def _left_as_found(model: nn.Module) -> Iterator[None]:
    """Buffers (running statistics) and the global random state are put back afterwards."""
    saved = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({b.device.index or 0 for b in model.parameters() if b.device.type == "cuda"})
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        with torch.no_grad():
            for buffer, value in saved:
                buffer.copy_(value)


def _shorten(text: str, size: int) -> str:
    return text if len(text) <= size else "..." + text[3 - size :]
