"""Basis rows of values in factored form: the first with constants, the others linear parts, as small as they are.

Rows that started at one fold form a group; in a convolutional network they are windows of images (`Patches`) until
these have grown to nearly the whole image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from ...network.kernels.windows import add_windows
from ...network.patches import Patches
from ...network.program import Fold
from .. import kernels
from .segments import CUTS

_GROWTH = 4  # of the windows in a segment, about
_WORTH_JOINING = 1 << 20  # bytes up to which groups of whole rows are copied into one


@dataclass(frozen=True)
class Group:
    """Some basis rows: name of a value (or CUTS) to their linear parts; None where all are zero."""

    count: int
    values: Mapping[str, Patches | None]

    @property
    def bytes(self) -> int:
        return sum(rows.bytes for rows in self.values.values() if rows is not None)

    @property
    def is_whole(self) -> bool:
        return all(rows is None or rows.start is None for rows in self.values.values())

    def joined(self, other: Group) -> Group:
        """These rows and those of another group, both whole."""
        values: dict[str, Patches | None] = {}
        for name, rows in self.values.items():
            pair = [rows, other.values[name]]
            shape = next((part.shape for part in pair if part is not None), None)
            if shape is None:
                values[name] = None
                continue
            counts = (self.count, other.count)
            filled = [
                torch.zeros(n, *shape, dtype=torch.float64) if part is None else part.values
                for n, part in zip(counts, pair, strict=True)
            ]
            values[name] = Patches(torch.cat(filled), shape)
        return Group(self.count + other.count, values)


@dataclass(frozen=True)
class Basis:
    """Attributes:
    first: Name of a value (or CUTS) to `[size]`, its row with constants.
    groups: The other rows, in order.
    """

    first: Mapping[str, np.ndarray]
    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return 1 + sum(group.count for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    def bytes_next(self, row_bytes: int) -> int:
        """About how many bytes it has behind the next segment, where whole rows have so many."""
        return sum(
            group.count * row_bytes if group.is_whole else min(_GROWTH * group.bytes, group.count * row_bytes)
            for group in self.groups
        )

    def _ranges(self) -> Iterator[tuple[Group, int, int]]:
        start = 1
        for group in self.groups:
            yield group, start, start + group.count
            start += group.count

    def rows(self, name: str) -> np.ndarray:
        """`[r, size]` of a value."""
        out = np.zeros((len(self), len(self.first[name])))
        out[0] = self.first[name]
        for group, start, stop in self._ranges():
            value = group.values[name]
            if value is not None:
                out[start:stop] = value.flat()
        return out

    def columns(self, name: str, elements: np.ndarray) -> np.ndarray:
        """`[r, m]`: some elements of a value."""
        out = np.zeros((len(self), len(elements)))
        out[0] = self.first[name][elements]
        for group, start, stop in self._ranges():
            value = group.values[name]
            if value is not None:
                out[start:stop] = value.columns(elements)
        return out

    def cuts(self, fold: Fold, units: np.ndarray) -> np.ndarray:
        """`[r, m]`: pre-activations of some units of the fold that follows."""
        if fold.at is None:
            return self.columns(CUTS, units)
        found = self.columns(fold.inputs[0], fold.elements[units])
        found[0] -= fold.at[units]
        return found

    def cut_ranges(
        self, fold: Fold, mid: np.ndarray, rad: np.ndarray, size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per unit of the fold that follows, mid @ B, rad @ |B| and size @ |B| for B its pre-activations `[r, U]`."""
        name = CUTS if fold.at is None else fold.inputs[0]
        center, reach, error = np.zeros((3, len(self.first[name])))
        for group, start, stop in self._ranges():
            value = group.values[name]
            if value is None:
                continue
            sums = mid[start:stop], rad[start:stop], size[start:stop]
            if value.start is None:
                kernels.add_rows(value.flat(), *sums, center, reach, error)
            else:
                images = (part.reshape(value.shape) for part in (center, reach, error))
                kernels.add_patches(value.values.contiguous().numpy(), value.start, *sums, *images)
        first = self.first[name]
        if fold.at is not None:
            first = first[fold.elements] - fold.at
            center, reach, error = center[fold.elements], reach[fold.elements], error[fold.elements]
        return center + mid[0] * first, reach + rad[0] * np.abs(first), error + size[0] * np.abs(first)

    def merged(self, through: np.ndarray, kept: np.ndarray) -> Basis:
        """The basis `through @ rows`; `through` `[n, r]` is the identity on `kept` columns, but for its first row."""
        gone = np.ones(len(self), bool)
        gone[kept] = False
        first = {name: row + self._sum(name, through[0]) for name, row in self.first.items()}
        place = np.full(len(self), -1)
        place[kept] = np.arange(len(kept))
        groups = []
        for group, start, stop in self._ranges():
            inside = np.flatnonzero(~gone[start:stop])
            if len(inside) == 0:
                continue
            weights = through[place[start + inside]] * gone
            changed = len(inside) < group.count or weights.any()
            groups.append(self._shifted(group, inside, weights) if changed else group)
        return Basis(first, tuple(groups))

    def _sum(self, name: str, weights: np.ndarray) -> np.ndarray:
        """`weights[1:] @ rows[1:]` of a value."""
        out = np.zeros(len(self.first[name]))
        for group, start, stop in self._ranges():
            value = group.values[name]
            if value is None or not weights[start:stop].any():
                continue
            _add(Patches(torch.from_numpy(out).reshape(1, *value.shape), value.shape), value, weights[None, start:stop])
        return out

    def _shifted(self, group: Group, inside: np.ndarray, weights: np.ndarray) -> Group:
        """Some rows of a group, plus combinations `weights` `[n, r]` of all rows."""
        values: dict[str, Patches | None] = {}
        for name, rows in group.values.items():
            target = None if rows is None else rows.chosen(inside)
            for source, start, stop in self._ranges():
                value, factors = source.values[name], weights[:, start:stop]
                if value is None or not factors.any():
                    continue
                if target is None:
                    target = Patches(torch.zeros(len(inside), *value.shape, dtype=torch.float64), value.shape)
                if value.start is None:
                    target = target.whole()
                _add(target, value, factors)
            values[name] = target
        return Group(len(inside), values)


def _add(target: Patches, rows: Patches, factors: np.ndarray) -> None:
    """Add `factors` `[n, m]` times m rows to n rows, in place; windows of the former lie in those of the latter."""
    if rows.start is None:
        used = np.flatnonzero(factors.any(0))
        flat = target.values.view(len(target), -1)
        flat.addmm_(torch.from_numpy(factors[:, used]), torch.from_numpy(rows.flat()[used]))
        return
    starts = np.zeros((len(target), 2), np.int64) if target.start is None else target.start
    factors = np.ascontiguousarray(factors)  # one kind of array: one compiled kernel
    add_windows(target.values.numpy(), starts, rows.values.contiguous().numpy(), rows.start, factors)


def with_fewer_groups(groups: list[Group]) -> tuple[Group, ...]:
    """Neighboring groups of whole rows as one, where the copy is small."""
    out: list[Group] = []
    for group in groups:
        last = out[-1] if out else None
        if last is not None and last.is_whole and group.is_whole and last.bytes + group.bytes <= _WORTH_JOINING:
            out[-1] = last.joined(group)
        else:
            out.append(group)
    return tuple(out)


def stacked(parts: list[Patches]) -> Patches:
    """Rows one after the other, in windows of one size."""
    if len(parts) == 1:
        return parts[0]
    starts = [part.start for part in parts if part.start is not None]
    if len(starts) < len(parts):
        return replace(parts[0], values=torch.cat([part.whole().values for part in parts]), start=None)
    height, width = max(part.window[0] for part in parts), max(part.window[1] for part in parts)
    values = [
        torch.nn.functional.pad(part.values, (0, width - part.window[1], 0, height - part.window[0])) for part in parts
    ]
    return Patches(torch.cat(values), parts[0].shape, np.concatenate(starts))
