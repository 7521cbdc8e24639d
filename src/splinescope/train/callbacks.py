"""Monitors inside other people's training loops: Lightning and Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
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


def _keeps(monitor: Any) -> bool:
    """Whether it has a state that belongs into checkpoints, as a schedule that changes the model has."""
    return all(callable(getattr(monitor, name, None)) for name in ("state_dict", "load_state_dict"))


def _check_alone(schedule: Any, processes: int) -> None:
    """Trainers wrap a model for several processes once, and a wrapped model holds the parameters it was built with."""
    if processes > 1:
        raise InputError(
            f"{type(schedule).__name__} changes the model's parameters, so that it must train in one process here, got "
            f"{processes}; in a loop of your own, wrap the model anew where `step` returns True."
        )


def lightning_callback(monitor: Listener) -> Any:
    """A `lightning.pytorch.Callback` that tells the monitor each global step.

    Monitors measure on the main process only, the last state always, and what they measure goes to the trainer's own
    loggers; a schedule that changes the model (`MergeAway`) must be alone in one process. Its state is in the trainer's
    checkpoints, and `fit(ckpt_path=...)` with a new model, schedule and callback goes on from there: the network and
    its optimizer are built as they were before their own states are loaded.

    Example:
        >>> trainer = Trainer(callbacks=[lightning_callback(monitor)])    # doctest: +SKIP
    """
    _check_listener(monitor)
    base: Any = require("lightning.pytorch", "lightning").Callback

    class TellMonitor(base):
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

    return _kept_by_lightning(TellMonitor, monitor)() if _keeps(monitor) else TellMonitor()


def _kept_by_lightning(base: Any, schedule: Any) -> Any:
    """The callback with a state; the model's is set aside until Lightning has made the optimizers, after a schedule."""

    class TellSchedule(base):
        state_key = type(schedule).__qualname__
        kept: Any = None
        weights: Any = None

        def state_dict(self) -> dict[str, Any]:
            state: dict[str, Any] = schedule.state_dict()
            return state

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.kept = state_dict

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if stage == "fit":
                _check_alone(schedule, trainer.world_size)
            of_user = pl_module.on_load_checkpoint

            def on_load_checkpoint(checkpoint: dict[str, Any]) -> None:
                of_user(checkpoint)
                state = checkpoint.get("callbacks", {}).get(self.state_key)
                if state is None:  # of a training without this callback
                    return
                if stage != "fit":
                    schedule.load_state_dict(state, training=False)
                    return
                self.weights, checkpoint["state_dict"] = checkpoint["state_dict"], pl_module.state_dict()

            pl_module.on_load_checkpoint = on_load_checkpoint

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            if self.weights is None:
                return
            schedule.load_state_dict(self.kept)
            pl_module.load_state_dict(self.weights, strict=pl_module.strict_loading)
            self.kept = self.weights = None

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            vars(pl_module).pop("on_load_checkpoint", None)  # that of the class is there again

    return TellSchedule


def trainer_callback(monitor: Listener, trainer: Any = None) -> Any:
    """A `transformers.TrainerCallback` that tells the monitor each global step.

    The state that training ends in is always measured. The state of a schedule that changes the model (`MergeAway`) is
    in the trainer's checkpoints. The trainer loads a model before it asks callbacks, so to go on from a checkpoint call
    the callback's `restore` first, which builds the model and its optimizer as they were.

    Args:
        monitor: What is told: a monitor on the main process only; a schedule that changes the model must be alone.
        trainer: The trainer, if what is measured is to go into its own log and to what it reports to.

    Example:
        >>> trainer = Trainer(model)                                          # doctest: +SKIP
        >>> trainer.add_callback(trainer_callback(monitor, trainer))          # doctest: +SKIP

    To go on with a new model, of which the schedule has the optimizer made if there is none yet:

        >>> schedule = MergeAway(model, trainer.create_optimizer, at=1000)    # doctest: +SKIP
        >>> callback = trainer_callback(schedule)                             # doctest: +SKIP
        >>> trainer.add_callback(callback)                                    # doctest: +SKIP
        >>> callback.restore("out/checkpoint-2000")                           # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint="out/checkpoint-2000")       # doctest: +SKIP
    """
    _check_listener(monitor)
    base: Any = require("transformers", "transformers").TrainerCallback

    class TellMonitor(base):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
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

    return _kept_by_transformers(TellMonitor, monitor)() if _keeps(monitor) else TellMonitor()


def _kept_by_transformers(base: Any, schedule: Any) -> Any:
    """The callback with a state, which the trainer writes into `trainer_state.json` of its checkpoints."""
    parts = require("transformers.trainer_callback", "transformers")

    class TellSchedule(base, parts.ExportableState):  # type: ignore[name-defined]
        kept: Any = None  # the trainer may make this callback anew and set it, which changes nothing

        def on_train_begin(self, args: Any, state: Any, control: Any, **kept: Any) -> None:
            _check_alone(schedule, args.world_size)
            super().on_train_begin(args, state, control, **kept)

        def state(self) -> dict[str, Any]:
            return {"args": {}, "attributes": {"kept": schedule.state_dict()}}

        def restore(self, checkpoint: str | os.PathLike[str]) -> None:
            """Go on from the schedule of a checkpoint's folder; before `train(resume_from_checkpoint=checkpoint)`."""
            file = Path(checkpoint) / "trainer_state.json"
            if not file.is_file():
                raise InputError(
                    f"checkpoint must be a folder that the trainer wrote, with {file.name}, got {file.parent}."
                )
            callbacks = parts.TrainerState.load_from_json(str(file)).stateful_callbacks
            if type(self).__name__ not in callbacks:
                raise InputError(f"checkpoint must be of a training with this callback, got {file.parent}, which has: "
                                 f"{', '.join(callbacks) or 'none'}.")  # fmt: skip
            schedule.load_state_dict(callbacks[type(self).__name__]["attributes"]["kept"])

    return TellSchedule
