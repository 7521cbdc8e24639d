"""All units of a network as affine functions on one tile, in the coordinates that the network can see.

On a tile every value is affine in the input, `v(x0 + B^T t) = v0 + V t`. The rows (v0, V) of every value go through the
network's own steps; at a fold the tile's pattern says which affine function it is. So the halfspaces of a tile follow
from its pattern alone, wherever the tile lies: nothing is evaluated near a wall, and no rounding adds up from tile to
tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, Tournament, walk, walked
from ..support.errors import InputError
from ..support.threads import one_torch_thread
from ..tiling.engine.plan import make_plan

SCALE = 2.0**40  # linear rows carry this factor: beside it the constants of a step cost them no digits
_RANK = 1e-12  # of the largest singular value: directions below it are rounding
_SLOPE = 1e-12  # of the steepest unit of a site: a unit that is flatter is constant
_NOISE = 1e-14  # of the steepest unit that it is made from: behind saturated units a whole site is rounding
_NUMBERS = 1 << 27  # in the halfspaces of one tile: 1 GB
RTOL = 1e-12
"""A pre-activation is zero below this factor times the sum of its absolute terms, as in `tessellate`."""

Pattern = tuple[np.ndarray, ...]
"""Per site, `[U]` on which side of its fold each unit is (bool), or who wins each window of a max (int64)."""

Choose = Callable[["Cuts"], np.ndarray]
"""From the units of a site as affine functions on K tiles to the site's patterns there, `[K, U]` or `[K, W]`."""


@dataclass(frozen=True)
class Cuts:
    """The units of one site on K tiles."""

    site: int
    rows: np.ndarray  # [K, 1 + r, U] value at the origin and slopes of each cut; of a max, [K, 1 + r, k, W] competitors
    zero: np.ndarray  # [U] or [W] how large a zero may be
    flat: np.ndarray  # [K] how large a slope is that is only rounding

    @property
    def is_max(self) -> bool:
        return self.rows.ndim == 4

    def slopes(self, direction: np.ndarray) -> np.ndarray:
        """Slopes along a direction, on the first tile."""
        return np.asarray(np.tensordot(direction, self.rows[0, 1:], 1))


@dataclass(frozen=True, eq=False)
class LocalRows:
    """The units on one tile: it is where `heights + normals @ t >= 0`, t the coordinates about the space's origin.

    What is `flat` is zero on the whole tile: a unit behind dead ones, a competitor that equals the winner. It makes no
    halfspace, but may take a side behind any wall.
    """

    pattern: Pattern
    heights: np.ndarray  # [n] signed distances of the origin to the units' hyperplanes
    normals: np.ndarray  # [n, r] of length 1, into the tile
    owners: np.ndarray  # [n, 3] site and unit; for a max, which competitor would take over behind it, else -1
    flat: np.ndarray  # [m, 3] the same
    values: np.ndarray  # [C] outputs of the tile's affine map at the origin
    slopes: np.ndarray  # [C, r] its matrix
    noise: float = 0.0  # how large a slope of the outputs is that is only rounding

    @cached_property
    def key(self) -> bytes:
        """Equal for equal patterns."""
        parts = (np.packbits(part) if part.dtype == bool else part.astype(np.int32) for part in self.pattern)
        return b"".join(part.tobytes() for part in parts)

    def key_behind(self, site: int, unit: int) -> bytes:
        """The key of the tile whose pattern differs in one unit."""
        before = sum((len(part) + 7) // 8 if part.dtype == bool else 4 * len(part) for part in self.pattern[:site])
        key = bytearray(self.key)
        key[before + unit // 8] ^= 128 >> unit % 8
        return bytes(key)

    def pattern_behind(self, site: int, unit: int) -> Pattern:
        """That pattern."""
        flipped = self.pattern[site].copy()
        flipped[unit] = not flipped[unit]
        return (*self.pattern[:site], flipped, *self.pattern[site + 1 :])


@dataclass(frozen=True, eq=False)
class Block:
    """The units on K tiles: arrays as in `LocalRows`, before them an axis of the tiles (but of `owners`).

    Of all n rows, `kept` `[K, n]` make a halfspace, and `zero` `[K, n]` are zero on the whole tile.
    """

    patterns: tuple[np.ndarray, ...]
    heights: np.ndarray
    normals: np.ndarray
    owners: np.ndarray
    kept: np.ndarray
    zero: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    noise: np.ndarray

    def of(self, tile: int) -> LocalRows:
        """The rows of one tile."""
        kept = slice(None) if self.kept[tile].all() else self.kept[tile]
        return LocalRows(
            tuple(part[tile] for part in self.patterns), self.heights[tile, kept], self.normals[tile, kept],
            self.owners[kept], self.owners[self.zero[tile]], self.values[tile], self.slopes[tile],
            float(self.noise[tile]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Where a network is looked at: inputs `origin + t @ basis`, `basis` orthonormal.

    A network sees of its input only what the first folds (and skips) take in. Directions orthogonal to all of that
    are left out: every tile is its part in these coordinates times all of the rest.
    """

    program: Program
    origin: np.ndarray
    basis: np.ndarray | None = None  # None: all directions
    zeros: dict[str, np.ndarray] = field(init=False)  # by the output of each fold, how large a zero of its units may be

    def __post_init__(self) -> None:
        with one_torch_thread(), torch.no_grad():
            plan = make_plan(self.program, torch.from_numpy(self.origin[None].copy()), RTOL, "plain")
        zeros = dict(zip((fold.output for fold in plan.folds), plan.tolerances, strict=True))
        for segment, ties in zip(plan.segments, plan.tie_tolerances, strict=True):
            zeros |= {tournament.final: tie for tournament, tie in zip(segment.tournaments, ties, strict=True)}
        object.__setattr__(self, "zeros", zeros)

    @property
    def dimension(self) -> int:
        return self.origin.size if self.basis is None else len(self.basis)

    def inputs(self, t: np.ndarray) -> np.ndarray:
        """`[N, *input_shape]` the inputs at coordinates `[N, r]`."""
        moved = t if self.basis is None else t @ self.basis
        return self.origin + moved.reshape(-1, *self.origin.shape)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """`[N, r]` the coordinates of inputs `[N, *input_shape]` (of their nearest points)."""
        moved = (x - self.origin).reshape(len(x), self.origin.size)
        return moved if self.basis is None else moved @ self.basis.T

    def directions(self, rows: np.ndarray) -> np.ndarray:
        """`[N, D]` directions of input space, from `[N, r]`."""
        return rows if self.basis is None else rows @ self.basis

    def rows(self, choose: Choose, tiles: int = 1) -> Block:
        """The rows of all units on so many tiles, whose patterns `choose` says site by site."""
        units, size = sum(site.cuts for site in self.program.sites), self.dimension
        widest = max((fold.site.units for fold in self.program.folds), default=1)
        if max(units, widest) * size > _NUMBERS:
            raise InputError(
                f"a tile must have at most {_NUMBERS:,} numbers in its halfspaces, got {units:,} units with "
                f"{size:,} inputs each: take those nearest to x, tile_at(model, x, nearest=1000), or tile a slice."
            )
        reader = RowReader(self.program, choose, self.zeros)
        basis = np.eye(self.origin.size) if self.basis is None else self.basis
        return reader.result(reader.outputs(self.origin, basis, tiles))


def at_origin(direction: np.ndarray, on: list[tuple[int, int]]) -> Choose:
    """Reads the pattern at the origin; folds through it are noted in `on`, and their units take `direction`'s side."""

    def choose(cuts: Cuts) -> np.ndarray:
        value, slope, flat = cuts.rows[0, 0], cuts.slopes(direction), cuts.flat[0]
        if not cuts.is_max:
            zero = np.abs(value) <= cuts.zero
            on.extend((cuts.site, int(unit)) for unit in np.flatnonzero(zero & (np.abs(slope) > flat)))
            return np.where(zero, slope > flat, value > 0)[None]
        tied = value >= value.max(0) - cuts.zero
        steepest = np.where(tied, slope, -np.inf)
        differ = tied & (steepest < steepest.max(0) - flat)
        on.extend((cuts.site, int(window)) for window in np.flatnonzero(differ.any(0)))
        return _first_largest(steepest, flat)[None]

    return choose


def at_point(t: np.ndarray) -> Choose:
    """Reads the pattern at coordinates `[r]`; of a unit that is zero there, either side."""

    def choose(cuts: Cuts) -> np.ndarray:
        values = cuts.rows[:, 0] + cuts.slopes(t / SCALE)
        return np.asarray(values.argmax(1) if cuts.is_max else values > 0)

    return choose


def _first_largest(values: np.ndarray, slack: float) -> np.ndarray:
    """`[W]` the first of `[k, W]` that is largest up to rounding: copies of one competitor are one."""
    return np.asarray((values >= values.max(0) - slack).argmax(0))


def behind(rows: LocalRows, members: np.ndarray, direction: np.ndarray) -> Choose:
    """The pattern behind a wall: units along it take the side of `direction`, which leads across; all others stay.

    So may units that are zero on all of this tile. A unit that is constant behind the wall is on its negative side.
    `members` are site, unit and rival of the halfspaces that the wall bounds, `[m, 3]`.
    """
    moving: dict[int, dict[int, list[int]]] = {}
    for site, unit, rival in np.concatenate([members, rows.flat]).tolist():
        moving.setdefault(site, {}).setdefault(unit, []).append(rival)

    def choose(cuts: Cuts) -> np.ndarray:
        before = rows.pattern[cuts.site]
        if cuts.site not in moving:
            return before[None]
        found, units, slopes = before.copy(), moving[cuts.site], cuts.slopes(direction)
        if not cuts.is_max:
            found[list(units)] = slopes[list(units)] > cuts.flat[0]
        else:
            for window, rivals in units.items():
                tied = sorted({int(before[window]), *rivals})
                found[window] = tied[int(_first_largest(slopes[tied, window], cuts.flat[0]))]
        return found[None]

    return choose


class RowReader:
    """Evaluates steps on rows, and keeps those of units; see the module's text."""

    def __init__(self, program: Program, choose: Choose, zeros: Mapping[str, np.ndarray]) -> None:
        self._program, self._choose, self._zeros = program, choose, zeros
        self._numbers = program.site_numbers
        self._stages = {name for step in program.steps if isinstance(step, Tournament) for name, _ in step.stages}
        self._patterns: list[np.ndarray] = []
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._owners: list[np.ndarray] = [np.zeros((0, 3), np.int64)]
        self._steep: dict[str, np.ndarray] = {}  # by value, [K] the largest slope that its rounding comes from

    def outputs(self, origin: np.ndarray, basis: np.ndarray, tiles: int = 1) -> np.ndarray:
        """`[K, 1 + r, C]` the rows of the outputs, once those of the input have gone through all steps."""
        block = np.concatenate([origin.reshape(1, -1), SCALE * basis]).reshape(-1, *origin.shape)
        self._size, self._steep = len(block), {self._program.input: np.zeros(tiles)}
        with one_torch_thread(), torch.no_grad():
            values = {self._program.input: torch.from_numpy(np.concatenate([block] * tiles))}
            out = walked(self._program.steps, values, {self._program.output}, self._step)[self._program.output]
        rows = out.reshape(tiles, len(out) // tiles, -1).numpy()
        return np.concatenate([rows[:, :1], rows[:, 1:] / SCALE], 1)

    def _step(self, step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
        self._steep[step.output] = np.max([self._steep[name] for name in step.inputs] or [np.zeros(1)], axis=0)
        if isinstance(step, Affine):
            return linear_rows(step.run, inputs, self._size)
        if step.output in self._stages:
            return self._stage(step, inputs[0])
        cuts = self._cuts(step, linear_rows(step.cuts, inputs, self._size))
        signs = self._choose(cuts)
        self._patterns.append(signs)
        self._keep(cuts, cuts.rows * np.where(signs, 1.0, -1.0)[:, None], np.ones(signs.shape, bool), -1)
        return self._straight(step, inputs, signs.astype(np.float64), self._size)

    def _straight(self, step: Fold, inputs: list[Tensor], slopes: np.ndarray, size: int) -> Tensor:
        """The fold as an affine map on each tile: its hinges are lines through zero of these slopes `[K, U]`."""
        chosen, gains, elements = (torch.from_numpy(part) for part in (slopes, step.gains, step.elements))

        def straight(*values: Tensor) -> Tensor:
            z, out = step.cuts(*values), step.run(*values)
            flat = out.reshape(len(out), -1).clone()
            flat.index_add_(1, elements, gains * (chosen.repeat_interleave(len(z) // len(chosen), 0) * z - z.relu()))
            return flat.reshape(out.shape)

        return linear_rows(straight, inputs, size)

    def _stage(self, step: Fold, competitors: Tensor) -> Tensor:
        """Stages hand on all competitors; the last one the winners."""
        if step.output not in self._numbers:
            return competitors
        sign = float(step.gains[0])
        cuts = self._cuts(step, sign * competitors)
        winners = self._choose(cuts)
        self._patterns.append(winners)
        best = np.take_along_axis(cuts.rows, winners[:, None, None], 2)
        for rival in range(cuts.rows.shape[2]):
            self._keep(cuts, best[:, :, 0] - cuts.rows[:, :, rival], winners != rival, rival)
        return torch.from_numpy(sign * best).flatten(0, 1)

    def _cuts(self, step: Fold, values: Tensor) -> Cuts:
        rows = values.reshape(-1, self._size, *values.shape[1:]).numpy()
        steepest = np.abs(rows[:, 1:]).reshape(len(rows), -1).max(1, initial=0.0)
        before = self._steep[step.output]
        self._steep[step.output] = np.where(steepest > _NOISE * before, steepest, before)
        flat = np.maximum(_SLOPE * steepest, _NOISE * before)
        return Cuts(self._numbers[step.output], rows, self._zeros[step.output], flat)

    def _keep(self, cuts: Cuts, rows: np.ndarray, valid: np.ndarray, rival: int) -> None:
        """Keep halfspaces `[K, 1 + r, U]` (what is positive on the tile), those that are `valid` `[K, U]`."""
        steepness = np.linalg.norm(rows[:, 1:], axis=1)
        kept = valid & (steepness > cuts.flat[:, None])
        zero = valid & ~kept & (np.abs(rows[:, 0]) <= cuts.zero)
        steepness = np.where(kept, steepness, 1.0)
        values = np.where(np.abs(rows[:, 0]) > cuts.zero, rows[:, 0], 0.0)
        self._parts.append((
            values * SCALE / steepness, (rows[:, 1:] / steepness[:, None]).transpose(0, 2, 1), kept, zero,
        ))  # fmt: skip
        self._owners.append(owners(cuts.site, rows.shape[2], rival))

    def result(self, out: np.ndarray) -> Block:
        """What was kept, with the rows of the outputs `[K, 1 + r, C]`."""
        none = np.zeros((len(out), 0))
        empty = (none, np.zeros((len(out), 0, out.shape[1] - 1)), none.astype(bool), none.astype(bool))
        heights, normals, kept, zero = (np.concatenate(p, 1) for p in zip(empty, *self._parts, strict=True))
        steepest = np.abs(out[:, 1:]).reshape(len(out), -1).max(1, initial=0.0)
        return Block(
            tuple(self._patterns), heights, np.ascontiguousarray(normals), np.concatenate(self._owners), kept, zero,
            out[:, 0], np.ascontiguousarray(out[:, 1:].transpose(0, 2, 1)),
            np.maximum(_SLOPE * steepest, _NOISE / SCALE * self._steep[self._program.output]),
        )  # fmt: skip


def owners(site: int, units: int, rival: int) -> np.ndarray:
    """`[U, 3]` site, unit and rival of the rows of a site."""
    return np.stack([np.full(units, site), np.arange(units), np.full(units, rival)], 1)


def linear_rows(run: Callable[..., Tensor], inputs: list[Tensor], size: int) -> Tensor:
    """An affine function on the rows of tiles, `size` each: as it is on the first, its linear part on the others."""
    out = run(*inputs)
    still = run(*(torch.zeros_like(value[::size]) for value in inputs))
    if still.any():
        rows = out.reshape(-1, size, *out.shape[1:])
        out = torch.cat([rows[:, :1], rows[:, 1:] - still[:, None]], 1).flatten(0, 1)
    return out


def seen(program: Program) -> np.ndarray | None:
    """`[r, D]` an orthonormal basis of the directions that the network can see; None: all of them."""
    size = math.prod(program.input_shape)
    straight = {program.input}  # values that no fold has bent
    heads: set[str] = set()
    steps: list[Affine] = []
    for step in program.steps:
        if isinstance(step, Tournament):
            continue
        inputs = set(step.inputs)
        if isinstance(step, Affine) and inputs <= straight:
            straight.add(step.output)
            steps.append(step)
        else:
            heads |= inputs & straight
    heads |= {program.output} & straight
    if program.input in heads:
        return None
    one = torch.zeros(1, *program.input_shape, dtype=torch.float64)
    with one_torch_thread(), torch.no_grad():
        first = walked(steps, {program.input: one}, heads)
        if sum(value.numel() for value in first.values()) >= size:
            return None
        block = SCALE * torch.eye(size, dtype=torch.float64).reshape(size, *program.input_shape)
        values = {program.input: torch.cat([one, block])}
        for _ in walk(steps, values, heads, lambda step, inputs: linear_rows(step.run, inputs, 1 + size)):
            pass
    rows = np.concatenate([values[name][1:].reshape(size, -1).numpy() for name in sorted(heads)], 1).T / SCALE
    if not rows.size:
        return np.zeros((0, size))
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)  # a flat unit counts as a steep one
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.ascontiguousarray(basis[sizes > _RANK * max(sizes.max(), 1e-300)])
