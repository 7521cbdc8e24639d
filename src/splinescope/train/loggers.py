"""Where a monitor's numbers go besides its own files: the logger that the rest of the run uses."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..support.checks import require
from ..support.errors import InputError

Sink = Callable[[Mapping[str, float], int], None]
"""Takes numbers by name, and the step they belong to."""


class Loggers:
    """One or several places for numbers, each known by what it can do.

    Args:
        given: A folder or a `SummaryWriter` (TensorBoard), a Weights & Biases run, the `mlflow` module, a logger of
            Lightning, a function of (numbers by name, step), several of these in a list, or None.
        group: Stands before every name: `complexity/train`.
    """

    def __init__(self, given: Any, group: str) -> None:
        self._group = group
        self._closers: list[Callable[[], None]] = []
        several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        self._sinks = [self._sink(one) for one in several if one is not None]

    def named(self, record: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of a record, named with their group: `complexity/train`, `complexity/train 0 net.1`."""
        # one slash only: where names are paths (mlflow on disk), `train` could not stand beside `train/0 net.1`
        numbers = {name: value for name, value in record.items() if isinstance(value, float)}
        return {f"{self._group}/{name.replace('/', ' ')}": value for name, value in numbers.items()}

    def write(self, record: Mapping[str, Any]) -> None:
        """The numbers of a record, at its step."""
        for sink in self._sinks:
            sink(self.named(record), int(record["step"]))

    def close(self) -> None:
        """Flush the writers, and close those that were opened here."""
        for close in self._closers:
            close()

    def _sink(self, given: Any) -> Sink:
        if isinstance(given, (str, os.PathLike)):
            require("tensorboard", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            writer = SummaryWriter(str(Path(given).resolve()))  # it writes later, from wherever the process is then
            self._closers.append(writer.close)
            return _scalars(writer)
        if hasattr(given, "add_scalar"):
            self._closers.append(given.flush)
            return _scalars(given)
        if hasattr(given, "define_metric"):  # a run of Weights & Biases, whose own steps must never fall back
            step = f"{self._group}/step"
            given.define_metric(f"{self._group}/*", step_metric=step)
            return lambda numbers, at: given.log({**numbers, step: at})
        if hasattr(given, "log_metrics"):  # mlflow, and every logger of Lightning
            return lambda numbers, at: given.log_metrics(dict(numbers), step=at)
        if callable(given):
            sink: Sink = given
            return sink
        raise InputError(
            "logger must be a folder or SummaryWriter (TensorBoard), a run of Weights & Biases, the mlflow module, a "
            f"logger of Lightning or a function of (numbers, step), got {type(given).__name__}."
        )


def _scalars(writer: Any) -> Sink:
    def write(numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return write
