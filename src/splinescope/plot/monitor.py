"""What a monitor wrote down, over the steps of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..support.errors import InputError
from ._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOT_MEASURED = ("step", "seconds", "late")


def plot_records(
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    label: str = "measured",
) -> Axes:
    """Numbers of a monitor's records over training steps, on an axis that is linear up to 1 and logarithmic beyond.

    `names` are numbers, or groups of them by what their names begin with ("tokens/nearest"); by default those without
    a slash in their name: one per set of points, and the metrics; all where none is without.
    """
    if not records:
        raise InputError("there are no records to draw: call monitor.step(step) in the training loop first.")
    known = [name for name, value in records[-1].items() if isinstance(value, float) and name not in _NOT_MEASURED]
    chosen = ([name for name in known if "/" not in name] or known) if names is None else list(names)
    chosen = [own for name in chosen for own in ([name] if name in known else _group(name, known))]
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"names must be among {', '.join(known)}, got {', '.join(unknown)}.")
    ax = new_axes(ax)
    for name in chosen:
        rows = [(record["step"], record[name]) for record in records if name in record]
        ax.plot(*zip(*rows, strict=True), marker=".", label=name)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=0)
    ax.set(xlabel="training step", ylabel=label)
    if chosen:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _group(name: str, known: list[str]) -> list[str]:
    """The numbers whose names begin with this one and a slash; itself if there are none, to be named."""
    return [other for other in known if other.startswith(f"{name}/")] or [name]
