"""Linear parts of image ops on rows that vanish outside a small window each.

What one unit of a convolutional network moves is a few pixels wide at first, and wider with every layer. An op that is
run on those pixels alone costs what they are, not what the image is. Constants (biases, paddings) have no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..support.threads import ALONE

_LARGE_KERNEL = 512  # weights of a convolution: torch is as good at smaller ones
_NEARLY_ALL = 0.6  # of an image's height or width: a larger window is no smaller work than the image


@dataclass(frozen=True)
class Patches:
    """Rows `[n, *shape]` of a value, of which some window is known to hold all that is not zero.

    Attributes:
        values: `[n, channels, h, w]`, or the whole rows `[n, *shape]`.
        shape: Of the whole value, without the batch axis.
        start: `[n, 2]` row and column of the image where each window starts (it may reach beyond the image, where
            it is zero); None: `values` are whole.
    """

    values: Tensor
    shape: tuple[int, ...]
    start: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def window(self) -> tuple[int, int]:
        return int(self.values.shape[-2]), int(self.values.shape[-1])

    @property
    def bytes(self) -> int:
        return 8 * self.values.numel()

    def part(self, start: int, stop: int) -> Patches:
        """The rows start..stop."""
        where = None if self.start is None else self.start[start:stop]
        return Patches(self.values[start:stop], self.shape, where)

    def chosen(self, rows: np.ndarray) -> Patches:
        """The rows with these numbers."""
        where = None if self.start is None else self.start[rows]
        return Patches(self.values[torch.from_numpy(rows)], self.shape, where)

    def whole(self) -> Patches:
        """The same rows with the whole image as their window."""
        if self.start is None:
            return self
        return Patches(_pasted(self.values, self.start, self.shape[-2:]), self.shape)

    def flat(self) -> np.ndarray:
        """`[n, size]` the whole rows."""
        rows = self.whole().values
        return rows.reshape(len(rows), -1).numpy()

    def columns(self, elements: np.ndarray) -> np.ndarray:
        """`[n, m]`: some elements (flat indices) of every row."""
        if self.start is None:
            return self.values.reshape(len(self), -1).numpy()[:, elements]
        out = np.empty((len(self), len(elements)))
        _kernels().pick(self.values.contiguous().numpy(), self.start, *self.shape[-2:], elements, out)
        return out

    def times(self, factors: Tensor) -> Patches:
        """Every number times the factor at its place: `[*shape]`, or `[channels, 1, 1]`."""
        if self.start is None or factors.shape[-2:] == (1, 1):
            return replace(self, values=self.values * factors)
        values, out = self.values.contiguous().numpy(), np.empty(self.values.shape)
        _kernels().scale_windows(values, self.start, factors.contiguous().numpy(), out)
        return replace(self, values=torch.from_numpy(out))


def units(elements: np.ndarray, amounts: np.ndarray, shape: tuple[int, ...]) -> Patches:
    """One row for each of the given elements (flat indices): that amount there, zero elsewhere."""
    n = len(elements)
    if len(shape) != 3:
        rows = torch.zeros(n, int(np.prod(shape)), dtype=torch.float64)
        rows[torch.arange(n), torch.from_numpy(elements)] = torch.from_numpy(amounts)
        return Patches(rows.reshape(n, *shape), shape)
    channels, height, width = shape
    rows = torch.zeros(n, channels, 1, 1, dtype=torch.float64)
    rows[torch.arange(n), torch.from_numpy(elements // (height * width)), 0, 0] = torch.from_numpy(amounts)
    place = elements % (height * width)
    return Patches(rows, shape, np.stack([place // width, place % width], 1))


def convolved(
    x: Patches, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
    shape: tuple[int, ...],
) -> Patches:  # fmt: skip
    """A convolution of images, to an image of the given shape."""
    if x.start is None:
        if _is_better_compiled(weight, stride, groups):
            return _along_lines(x, weight, padding, dilation, shape)
        return Patches(_convolve(x.values, weight, stride, padding, dilation, groups), shape)
    start, size, offsets, lengths = [], [], [], []
    for i in (0, 1):
        reach = (int(weight.shape[2 + i]) - 1) * dilation[i]
        first = -((reach - padding[i] - x.start[:, i]) // stride[i])  # the first output that sees the window
        count = (x.window[i] - 1 + reach) // stride[i] + 1
        start.append(first)
        size.append(count)
        offsets.append(x.start[:, i] + padding[i] - first * stride[i])
        lengths.append((count - 1) * stride[i] + reach + 1)
    if any(count > _NEARLY_ALL * length for count, length in zip(size, shape[1:], strict=True)):
        return convolved(x.whole(), weight, stride, padding, dilation, groups, shape)
    if _is_better_compiled(weight, stride, groups):  # at stride 1 every window lies in the middle of its crop
        return _along_lines(x, weight, [int(offset[0]) for offset in offsets], dilation, shape, np.stack(start, 1))
    crop = _pasted(x.values, np.stack(offsets, 1), lengths)
    values = _convolve(crop, weight, stride, (0, 0), dilation, groups)
    return _within(Patches(values, shape, np.stack(start, 1)))


def _is_better_compiled(weight: Tensor, stride: Sequence[int], groups: int) -> bool:
    """Whether torch, which copies all windows of an image, is slower than `kernels.convolve`."""
    taps = int(weight.shape[2] * weight.shape[3])
    return groups == 1 and max(stride) == 1 and taps > 1 and weight.numel() >= _LARGE_KERNEL


def _along_lines(
    x: Patches, weight: Tensor, margin: Sequence[int], dilation: Sequence[int], shape: tuple[int, ...],
    start: np.ndarray | None = None,
) -> Patches:  # fmt: skip
    """A convolution at stride 1 of images with so much margin; of windows whose outputs `start` there, if given."""
    outputs, _, *kernel = (int(size) for size in weight.shape)
    margins = np.array([x.window[i] + 2 * margin[i] for i in (0, 1)])
    reach = [(kernel[i] - 1) * dilation[i] for i in (0, 1)]
    out = np.empty((len(x), outputs, *(int(margins[i]) - reach[i] for i in (0, 1))))
    flat = weight.reshape(outputs, -1)
    taps = _taps(int(weight.shape[1]), *kernel, *dilation, *margins.tolist())
    if len(taps) > flat.shape[1]:
        flat = F.pad(flat, (0, len(taps) - flat.shape[1]))
    corners = np.zeros((len(x), 2), np.int64) if start is None else start
    _kernels().convolve(
        x.values.contiguous().numpy(), flat.numpy(), taps, *margin, margins, corners, np.array(shape[1:]), out
    )
    return Patches(torch.from_numpy(out), shape, start)


@cache
def _taps(channels: int, ky: int, kx: int, dy: int, dx: int, height: int, width: int) -> np.ndarray:
    """Where each weight of a kernel starts in an image of that size, in whole fours."""
    c, i, j = np.indices((channels, ky, kx)).reshape(3, -1)
    places = (c * height + i * dy) * width + j * dx
    return np.pad(places, (0, -len(places) % 4))


def padded(x: Patches, pad: Sequence[int], shape: tuple[int, ...]) -> Patches:
    """An image with margins (left, right, top, bottom)."""
    if x.start is None:
        return Patches(F.pad(x.values, list(pad)), shape)
    return Patches(x.values, shape, x.start + np.array([pad[2] if len(pad) > 2 else 0, pad[0]]))


def added(parts: Sequence[Patches]) -> Patches:
    """The sum of images of one shape."""
    starts = [part.start for part in parts if part.start is not None]
    if len(starts) < len(parts):
        first, *others = (part.whole().values for part in parts)
        return replace(parts[0], values=sum(others, first), start=None)
    low = np.min(starts, 0)
    ends = [start + part.window for start, part in zip(starts, parts, strict=True)]
    size = (np.max(ends, 0) - low).max(0)
    if (size > _NEARLY_ALL * np.array(parts[0].shape[-2:])).any():
        return added([part.whole() for part in parts])
    first, *others = (_pasted(part.values, start - low, size) for start, part in zip(starts, parts, strict=True))
    return Patches(sum(others, first), parts[0].shape, low)


def _convolve(
    x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Tensor:
    if groups > 1 and groups == weight.shape[0] == x.shape[1]:
        return _one_by_one(F.pad(x, [padding[1], padding[1], padding[0], padding[0]]), weight, stride, dilation)
    return F.conv2d(x, weight, None, list(stride), list(padding), list(dilation), groups)


@cache
def _kernels() -> SimpleNamespace:
    """The compiled loops: numba takes half a second to load, so where they are needed."""
    with ALONE:
        from .kernels import convolutions, windows
    return SimpleNamespace(**{**vars(convolutions), **vars(windows)})


def _one_by_one(x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """A convolution of each channel by itself, of images with their margins."""
    sizes = [(int(x.shape[2 + i]) - (int(weight.shape[2 + i]) - 1) * dilation[i] - 1) // stride[i] + 1 for i in (0, 1)]
    out = np.empty((len(x), len(weight), *sizes))
    _kernels().convolve_channels(x.contiguous().numpy(), weight[:, 0].contiguous().numpy(), *stride, *dilation, out)
    return torch.from_numpy(out)


def _pasted(values: Tensor, offsets: np.ndarray, size: Sequence[int]) -> Tensor:
    """Each of `[n, C, h, w]` at its own offset in a window of that size, zero elsewhere; what sticks out goes."""
    height, width = (int(length) for length in size)
    if values.shape[2:] == (height, width) and not offsets.any():
        return values
    out = values.new_zeros(len(values), values.shape[1], height, width)
    _kernels().paste(values.contiguous().numpy(), offsets, out.numpy())
    return out


def _within(x: Patches) -> Patches:
    """Zero what a window holds beyond the image."""
    assert x.start is not None
    values = x.values
    for i in (0, 1):
        place = x.start[:, i, None] + np.arange(x.window[i])
        inside = (place >= 0) & (place < x.shape[1 + i])
        if not inside.all():
            shape = (len(x), 1, -1, 1) if i == 0 else (len(x), 1, 1, -1)
            values = values * torch.from_numpy(inside.astype(np.float64)).reshape(shape)
    return replace(x, values=values)
