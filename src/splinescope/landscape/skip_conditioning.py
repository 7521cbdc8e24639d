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
from .conditioning import Conditioning, singular_conditions, skip_bound
from .inputs import Model, check_points
from .skips import Skip, chosen_skips, graph_module, skips_of, sources

_LARGEST = 8192  # numbers of a value whose Jacobian is written down: 512 MB, and some minutes a point
_NUMBERS = 16 << 20  # numbers of the Jacobians held at once (128 MB)


@dataclass(frozen=True, eq=False, repr=False)
class BlockConditioning(Result):
    """One block with its skip and without.

    Attributes:
        skip: The skip connection.
        with_skip: Conditioning of `F' + S'` at each point.
        without: Conditioning of `F'` there.
    """

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

    def __getitem__(self, name: str | Skip) -> BlockConditioning:
        wanted = name.name if isinstance(name, Skip) else name
        for block in self.blocks:
            if block.skip.name == wanted:
                return block
        names = ", ".join(block.skip.name for block in self.blocks) or "none: the network has no skip connections"
        raise KeyError(f"{wanted!r} is no skip of this model; there are: {names}.")

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
    model: Model, x: Any, *, skips: Sequence[Skip | str] | None = None, progress: Progress | bool | None = None
) -> SkipConditioning:
    """For every skip of a model: conditioning of its block with the skip and with it switched off, at each data point.

    The block map is the Jacobian of the sum with respect to s: `F' + S'` with, `F'` without. For identity skips `norm`
    is `|F'|` and `bound` the skip bound `(1 + |F'|) / (1 - |F'|)`; for projections there is no such bound (inf).

    Args:
        model: A module in eval mode (or the result of `trace` or `load`).
        x: `[N, ...]` data points; token ids stay whole numbers.
        skips: Which (from `find_skips`, or their names); all of them by default.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        The blocks by name. Exact at these points (and on their tiles, where the network is piecewise affine).

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


def _median(found: Conditioning) -> str:
    value = float(np.median(found.condition)) if found.condition.size else float("nan")
    return "singular" if np.isinf(value) else f"{value:.3g}"
