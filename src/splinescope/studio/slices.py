"""Slices as a page describes them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ..support.checks import as_float64_array, check_choice, check_positive, check_whole
from ..support.errors import InputError
from ..tiling import Slice

Examples = Callable[[], np.ndarray]


def read_slice(spec: Any, shape: tuple[int, ...], examples: Examples) -> Slice:
    """A slice from `{"kind": ...}`.

    Kinds: "axes" (two `axes`, or three for a space, `low`, `high`, each a number or one per axis, the other coordinates
    those of `center` or 0), "through" (`rows`, three examples), "random" (`seed`, `half`, about 0), "point" (`of`,
    another slice, and `at`, a point of it; a random plane through that).
    """
    if not isinstance(spec, Mapping):
        raise InputError("a slice must be an object with a kind.")
    kind = check_choice(str(spec.get("kind")), "kind", ("axes", "through", "random", "point"))
    if kind == "through":
        rows, data = spec.get("rows"), examples()
        if not len(data):
            size = " × ".join(map(str, shape))
            raise InputError(
                f"there are no examples of {size} numbers here: open a file of rows, or take another plane."
            )
        if not isinstance(rows, list) or len(rows) != 3:
            raise InputError("choose three examples for a plane through them.")
        chosen = [data[check_whole(row, "row", least=0, most=len(data) - 1)] for row in rows]
        return Slice.through(*chosen, pad=0.15)
    if kind == "axes":
        low, high = (as_ends(spec.get(name, default)) for name, default in (("low", -1.0), ("high", 1.0)))
        axes = spec.get("axes", [0, 1])
        if not isinstance(axes, list) or len(axes) not in (2, 3):
            raise InputError("choose two axes, or three.")
        return Slice.axes(_center(spec, shape), axes, low, high)
    generator = torch.Generator().manual_seed(check_whole(spec.get("seed", 0), "seed", least=0, most=2**31))
    half = check_positive(spec.get("half", 1.0), "half")
    if kind == "random":
        return Slice.box(_center(spec, shape), half_width=half, generator=generator)
    base = read_slice(spec.get("of"), shape, examples)
    return Slice.box(base.inputs([spec.get("at")])[0], half_width=half, generator=generator)


def as_ends(value: Any) -> float | list[float]:
    """Ends of a box: one number for all axes, or a list with one for each."""
    try:
        return [float(end) for end in value] if isinstance(value, list) else float(value)
    except (TypeError, ValueError) as error:
        raise InputError("from and to must be numbers: one for all axes, or one for each, as in -1, 0.") from error


def windowed(view: Slice, window: Any) -> Slice:
    """The same plane with another domain: `[x0, y0, x1, y1]`."""
    if window is None:
        return view
    if view.dimension != 2:
        raise InputError(f"a window belongs to a plane, got a {view.dimension}-D slice.")
    if not isinstance(window, list) or len(window) != 4:
        raise InputError("a window must be four numbers x0, y0, x1, y1.")
    x0, y0, x1, y1 = as_float64_array(window, "window").tolist()
    return Slice(view.origin, view.basis, np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), view.anchors)


def _center(spec: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    if spec.get("center") is None:
        return np.zeros(shape)
    center = as_float64_array(spec["center"], "center")
    if center.size != np.prod(shape):
        raise InputError(f"the plane lies among inputs of {center.size} numbers, the network takes {np.prod(shape)}.")
    return center.reshape(shape)
