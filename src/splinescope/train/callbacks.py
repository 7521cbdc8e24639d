"""Monitors inside other people's training loops: Lightning and Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..support.checks import require
from ..support.errors import InputError
from .monitor import TrainingMonitor


class Listener(Protocol):
    """What follows the steps of training: a monitor, or a schedule that changes the model (`MergeAway`)."""

    def step(self, step: int) -> Any:
        """Training is at this step."""

    def finish(self, step: int) -> Any:
        """Training is over, at this step."""


def _check_listener(monitor: Any) -> None:
    if not all(callable(getattr(monitor, name, None)) for name in ("step", "finish")):
        raise InputError(
            f"monitor must be what is told the steps of training (a monitor, MergeAway), got {type(monitor).__name__}."
        )


def _check_alone(monitor: Any, processes: int) -> None:
    """Trainers wrap a model for several processes once, and a wrapped model holds the parameters it was built with."""
    if processes > 1:
        raise InputError(
            f"{type(monitor).__name__} changes the model's parameters, so that it must train in one process here, got "
            f"{processes}; in a loop of your own, wrap the model anew where `step` returns True."
        )


def lightning_callback(monitor: Listener) -> Any:
    """A `lightning.pytorch.Callback` that tells the monitor each global step.

    Monitors measure on the main process only, the last state always, and what they measure goes to the trainer's own
    loggers; a schedule that changes the model (`MergeAway`) must be alone in one process.

    Example:
        >>> trainer = Trainer(callbacks=[lightning_callback(monitor)])    # doctest: +SKIP
    """
    _check_listener(monitor)
    base: Any = require("lightning.pytorch", "lightning").Callback

    class TellMonitor(base):
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if not isinstance(monitor, TrainingMonitor):
                _check_alone(monitor, trainer.world_size)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            _tell(trainer, monitor.step)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            _tell(trainer, monitor.step)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            _tell(trainer, monitor.finish)

    def _tell(trainer: Any, call: Callable[[int], Any]) -> None:
        if isinstance(monitor, TrainingMonitor) and not trainer.is_global_zero:
            return
        record = call(trainer.global_step)
        if isinstance(monitor, TrainingMonitor) and record is not None:
            for logger in trainer.loggers:
                logger.log_metrics(monitor.numbers(record), step=trainer.global_step)

    return TellMonitor()


def trainer_callback(monitor: Listener, trainer: Any = None) -> Any:
    """A `transformers.TrainerCallback` that tells the monitor each global step.

    The state that training ends in is always measured.

    Args:
        monitor: What is told: a monitor on the main process only; a schedule that changes the model must be alone.
        trainer: The trainer, if what is measured is to go into its own log and to what it reports to.

    Example:
        >>> trainer = Trainer(model)                                          # doctest: +SKIP
        >>> trainer.add_callback(trainer_callback(monitor, trainer))          # doctest: +SKIP
    """
    _check_listener(monitor)
    base: Any = require("transformers", "transformers").TrainerCallback

    class TellMonitor(base):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if not isinstance(monitor, TrainingMonitor):
                _check_alone(monitor, args.world_size)
            _tell(state, monitor.step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _tell(state, monitor.step)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _tell(state, monitor.finish)

    def _tell(state: Any, call: Callable[[int], Any]) -> None:
        if isinstance(monitor, TrainingMonitor) and not state.is_world_process_zero:
            return
        record = call(state.global_step)
        if isinstance(monitor, TrainingMonitor) and trainer is not None and record is not None:
            trainer.log(monitor.numbers(record))

    return TellMonitor()
