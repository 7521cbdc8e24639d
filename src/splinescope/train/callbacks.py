"""Monitors inside other people's training loops: Lightning and Hugging Face."""

from __future__ import annotations

from typing import Any

from ..support.checks import require
from ..support.errors import InputError
from .monitor import TrainingMonitor


def _check_monitor(monitor: Any) -> None:
    if not isinstance(monitor, TrainingMonitor):
        raise InputError(f"monitor must be a TrainingMonitor, such as ComplexityMonitor, got {type(monitor).__name__}.")


def lightning_callback(monitor: TrainingMonitor) -> Any:
    """A `lightning.pytorch.Callback` that tells the monitor each global step, on the main process only.

    The last state is always measured; what is measured goes to the trainer's own loggers.

    Example:
        >>> trainer = Trainer(callbacks=[lightning_callback(monitor)])    # doctest: +SKIP
    """
    _check_monitor(monitor)
    base: Any = require("lightning.pytorch", "lightning").Callback

    class TellMonitor(base):
        def on_train_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            if trainer.is_global_zero:
                _log(trainer, monitor.step(trainer.global_step))

        on_train_batch_end = on_train_start

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.is_global_zero:
                _log(trainer, monitor.finish(trainer.global_step))

    def _log(trainer: Any, record: Any) -> None:
        for logger in trainer.loggers if record is not None else ():
            logger.log_metrics(monitor.numbers(record), step=trainer.global_step)

    return TellMonitor()


def trainer_callback(monitor: TrainingMonitor, trainer: Any = None) -> Any:
    """A `transformers.TrainerCallback` that tells the monitor each global step, on the main process only.

    The last state is always measured.

    Args:
        monitor: What is told.
        trainer: The trainer, if what is measured is to go into its own log and to what it reports to.

    Example:
        >>> trainer = Trainer(model)                                          # doctest: +SKIP
        >>> trainer.add_callback(trainer_callback(monitor, trainer))          # doctest: +SKIP
    """
    _check_monitor(monitor)
    base: Any = require("transformers", "transformers").TrainerCallback

    class TellMonitor(base):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                _log(monitor.step(state.global_step))

        on_step_end = on_train_begin

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                _log(monitor.finish(state.global_step))

    def _log(record: Any) -> None:
        if trainer is not None and record is not None:
            trainer.log(monitor.numbers(record))

    return TellMonitor()
