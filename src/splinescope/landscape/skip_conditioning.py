"""Conditioning of the blocks of a real model, with their skip connections and with them switched off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node, map_arg

from ..support.derivatives import differentiating, row_jacobians
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.progress import Progress, stepping
from .inputs import Model, check_points
from .skips import Skip, chosen_skips, graph_module, skips_of, sources

_LARGEST = 8192  # numbers of a value whose Jacobian is written down: 512 MB, and some minutes a point
_NUMBERS = 16 << 20  # numbers of the Jacobians held at once (128 MB)


@dataclass(frozen=True, eq=False, repr=False)
class Conditioning(Result):
    """Condition numbers of layer maps with the norms and bounds that explain them.

    Attributes:
        condition: `[...]` largest over smallest singular value; inf where singular.
        norm: `[...]` largest singular value of the branch `D W` (for a stack: the largest over its layers).
        bound: `[...]` the upper bound of `condition`; inf where none holds.
    """

    condition: np.ndarray
    norm: np.ndarray
    bound: np.ndarray
    certainty = "exact"

    @property
    def violations(self) -> int:
        """How many exceed their bound by more than rounding, which from bounds of 1e12 on hides everything."""
        slack = np.minimum(1e-9 + 1e-12 * self.bound, 1.0)
        return int((np.where(slack < 1.0, self.condition, 0.0) * (1 - slack) > self.bound).sum())


@dataclass(frozen=True, eq=False, repr=False)
class BlockConditioning(Result):
    """One block: conditioning at each point of `F' + S'`, with its skip, and of `F'`, without."""

    skip: Skip
    with_skip: Conditioning
    without: Conditioning
    certainty = "exact"


@dataclass(frozen=True, eq=False, repr=False)
class SkipConditioning(Result):
    """The blocks of a model by name, in execution order: `found["layer1.0"].with_skip.condition`.

    Attributes:
        blocks: One entry a skip; empty for a network without skips.
        points: Number of data points.
    """

    blocks: tuple[BlockConditioning, ...]
    points: int
    certainty = "exact"
    plot = drawn("landscape.plot_conditioning")

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[BlockConditioning]:
        return iter(self.blocks)

    def __getitem__(self, name: str) -> BlockConditioning:
        known = {block.skip.name: block for block in self.blocks}
        if name not in known:
            names = ", ".join(known) or "none: the network has no skip connections"
            raise KeyError(f"{name!r} is no skip of this model; there are: {names}.")
        return known[name]

    def summary(self) -> str:
        """A table of the blocks."""
        if not self.blocks:
            return "The network has no skip connections (additions of a long and a short way): nothing to compare."
        rows = [("block", "skip", "kappa with", "kappa without", "|F'|", "points within their bound")]
        for block in self.blocks:
            kind = "identity" if block.skip.identity else "projection"
            bounded = int(np.isfinite(block.with_skip.bound).sum())
            held = f"{bounded - block.with_skip.violations} of {bounded}" if bounded else "-"
            norm = f"{np.median(block.with_skip.norm):.3g}"
            rows.append((block.skip.name, kind, _median(block.with_skip), _median(block.without), norm, held))
        return f"{table(rows)}\nMedians over {self.points} points. {self.assurance}"


def skip_conditioning(
    model: Model, x: Any, *, skips: Sequence[str] | None = None, progress: Progress | bool | None = None
) -> SkipConditioning:
    """For every skip of a model: conditioning of its block with the skip and with it switched off, at each data point.

    The block map is the Jacobian of the sum with respect to s: `F' + S'` with, `F'` without. For identity skips `norm`
    is `|F'|` and `bound` the skip bound `(1 + |F'|) / (1 - |F'|)`; for projections there is no such bound (inf).

    Args:
        model: A module in eval mode (or the result of `trace` or `load`).
        x: `[N, ...]` data points; token ids stay whole numbers.
        skips: Their names (see `find_skips`); all of them by default.
        progress: As in `tessellate`.

    Exact at these points (and on their tiles, where the network is piecewise affine).

    Cost: with n numbers in s, per skip and point n reverse passes through the block alone (2 n for projections) and two
    SVDs of n x n: some n^3 operations. Blocks beyond 8,192 numbers are refused.

    Example:
        >>> import torch, splinescope as ss
        >>> plain = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> len(ss.skip_conditioning(plain, torch.zeros(1, 2)))
        0
    """
    module = _doubled(graph_module(model, x))
    inputs = check_points(x, torch.float64, whole=True)
    chosen = chosen_skips(skips_of(module), skips)
    nodes, above = {node.name: node for node in module.graph.nodes}, sources(module)
    steps = stepping(chosen, progress, "skip conditioning")
    return SkipConditioning(tuple(_block(module, inputs, skip, nodes, above) for skip in steps), len(inputs))


def _block(
    module: GraphModule, x: Tensor, skip: Skip, nodes: dict[str, Node], above: dict[Node, set[Node]]
) -> BlockConditioning:
    source = nodes[skip.source]
    values = _run(module, x, {source})[source]
    size = values[0].numel()
    if size > _LARGEST:
        raise InputError(
            f"the value that {skip.name} skips has {size:,} numbers at a point, and its Jacobian as many squared: "
            f"beyond {_LARGEST:,} it is not written down. Choose others by skips=."
        )
    together = max(1, _NUMBERS // size**2)
    parts = []
    for start in range(0, len(x), together):
        rows = slice(start, start + together)
        at = values[rows]
        branch = _jacobians(module, x[rows], source, nodes[skip.branch], above, at)
        if skip.identity:
            whole = branch + np.eye(size)
        else:
            whole = _jacobians(module, x[rows], source, nodes[skip.total], above, at)
        longest = max(branch.shape[1:])
        sizes = np.linalg.svd(branch, compute_uv=False)
        both = [singular_conditions(s, longest) for s in (np.linalg.svd(whole, compute_uv=False), sizes)]
        parts.append((sizes[:, 0], *both))
    norm, with_skip, without = (np.concatenate(column) for column in zip(*parts, strict=True))
    unbounded = np.full_like(norm, np.inf)
    bound = skip_bound(norm) if skip.identity else unbounded
    return BlockConditioning(skip, Conditioning(with_skip, norm, bound), Conditioning(without, norm, unbounded))


def _jacobians(
    module: GraphModule, x: Tensor, source: Node, target: Node, above: dict[Node, set[Node]], at: Tensor
) -> np.ndarray:
    """`[N, m, n]` Jacobian of one value of the graph with respect to another `at` some points; runs what lies between.

    All ways from the input to the target go through the source, so nothing else of the graph is needed but constants.
    """
    between = [node for node in module.graph.nodes if node in above[target] - above[source]]
    outside = {p for node in between for p in node.all_input_nodes if p not in above} | {source}
    constants = _run(module, x, outside)

    def onward(value: Tensor) -> Tensor:
        known: dict[Node, Any] = {**constants, source: value}
        for node in between:
            args, kwargs = map_arg(node.args, known.__getitem__), map_arg(node.kwargs, known.__getitem__)
            known[node] = node.target(*args, **kwargs)
        result: Tensor = known[target]
        return result

    with differentiating("a block that is skipped", lambda: onward(at)):
        return row_jacobians(onward, at).cpu().numpy()


def _doubled(module: GraphModule) -> GraphModule:
    """The module in float64, with the dtypes that are written into its graph."""
    wide = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
    for node in module.graph.nodes:
        node.args = tuple(wide.get(a, a) if isinstance(a, torch.dtype) else a for a in node.args)
        node.kwargs = {k: wide.get(v, v) if isinstance(v, torch.dtype) else v for k, v in node.kwargs.items()}
    module.recompile()
    return module.double()


def _run(module: GraphModule, x: Tensor, keep: set[Node]) -> dict[Node, Any]:
    """Some values of the graph at inputs."""
    interpreter = Interpreter(module, garbage_collect_values=False)
    with torch.no_grad():
        interpreter.run(x)
    return {node: interpreter.env[node] for node in keep}


def singular_conditions(singular: np.ndarray, size: int) -> np.ndarray:
    """Largest over smallest of singular values `[..., r]` in descending order, of matrices with longest side `size`."""
    large, small = singular[..., 0], singular[..., -1]
    regular = small > size * np.finfo(float).eps * large
    return np.where(regular, large / np.where(regular, small, 1.0), np.inf)


def skip_bound(norm: Any) -> np.ndarray:
    """`(1 + norm) / (1 - norm)`, the bound of `kappa(I + D W)` with `norm = |D W| < 1`; inf from 1 on."""
    norm = np.asarray(norm, np.float64)
    return np.where(norm < 1.0, (1.0 + norm) / np.where(norm < 1.0, 1.0 - norm, 1.0), np.inf)


def _median(found: Conditioning) -> str:
    value = float(np.median(found.condition)) if found.condition.size else float("nan")
    return "singular" if np.isinf(value) else f"{value:.3g}"
