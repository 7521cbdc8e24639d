"""A monitor's numbers reach the logger that the rest of the run uses, each under its name and at its step."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.train import Every, trainer_callback

mpl.use("agg")


def monitor(**options: Any) -> ss.ComplexityMonitor:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    sets = {"train": torch.randn(5, 3), "test": torch.randn(5, 3)}
    return ss.ComplexityMonitor(net, sets, radius=0.5, schedule=Every(2), **options)


def told(**options: Any) -> ss.ComplexityMonitor:
    """Three records, at steps 0, 2 and 4."""
    with monitor(**options) as watch:
        for step in range(5):
            watch.step(step)
    assert [record["step"] for record in watch.records] == [0, 2, 4]
    return watch


def test_a_function_gets_every_number_with_its_step() -> None:
    seen: list[tuple[dict[str, float], int]] = []
    other: list[int] = []
    watch = told(logger=[lambda numbers, step: seen.append((dict(numbers), step)), None, lambda _, s: other.append(s)])
    assert [step for _, step in seen] == other == [0, 2, 4]
    for record, (numbers, _) in zip(watch.records, seen, strict=True):
        assert numbers["complexity/train"] == record["train"]
        assert numbers == watch.numbers(record)
        assert len(numbers) == sum(isinstance(value, float) for value in record.values())
        assert all(name.count("/") == 1 for name in numbers)
        assert all(isinstance(value, float) for value in numbers.values())


def test_loggers_of_lightning_are_called_as_lightning_calls_them() -> None:
    class Logger:  # its interface: `log_metrics(metrics, step)`
        def __init__(self) -> None:
            self.seen: list[tuple[int, float]] = []

        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            assert step is not None
            self.seen.append((step, metrics["complexity/test"]))

    logger = Logger()
    watch = told(logger=logger)
    assert logger.seen == [(record["step"], record["test"]) for record in watch.records]


def test_tensorboard_gets_them(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = told(logger=tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    found = [(event.step, event.value) for event in events.Scalars("complexity/train")]
    assert found == [(record["step"], pytest.approx(record["train"])) for record in watch.records]


@pytest.mark.filterwarnings("ignore")  # their own
def test_weights_and_biases_gets_them_offline(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="test", settings={"silent": True, "console": "off"})
    try:
        run.log({"loss": 1.0}, step=100)  # a loop with its own, later steps: nothing of ours is dropped for it
        watch = told(logger=run)
        assert run.summary["complexity/train"] == watch.records[-1]["train"]
        assert run.summary["complexity/step"] == 4
    finally:
        run.finish()


@pytest.mark.filterwarnings("ignore")  # their own
def test_mlflow_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment("test")
    with mlflow.start_run() as run:
        watch = told(logger=mlflow)
    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "complexity/train")
    assert [(m.step, m.value) for m in found] == [(r["step"], r["train"]) for r in watch.records]


def test_the_log_of_a_hugging_face_trainer_gets_them() -> None:
    pytest.importorskip("transformers", reason="the transformers extra is not installed")

    class Trainer:
        def __init__(self) -> None:
            self.seen: list[dict[str, float]] = []

        def log(self, logs: dict[str, float]) -> None:
            self.seen.append(logs)

    class State:
        is_world_process_zero, global_step = True, 0

    trainer, watch, state = Trainer(), monitor(), State()
    callback = trainer_callback(watch, trainer)
    callback.on_train_begin(None, state, None)
    for state.global_step in range(1, 5):
        callback.on_step_end(None, state, None)
    state.is_world_process_zero = False
    callback.on_train_end(None, state, None)  # on the main process alone
    assert len(trainer.seen) == 3
    state.global_step, state.is_world_process_zero = 5, True
    callback.on_train_end(None, state, None)
    assert [record["step"] for record in watch.records] == [0, 2, 4, 5]
    assert trainer.seen == [watch.numbers(record) for record in watch.records]


def test_the_state_that_training_ends_in_is_measured_and_logged() -> None:
    seen: list[int] = []
    watch = monitor(logger=lambda _numbers, step: seen.append(step))
    for step in range(4):
        watch.step(step)
    record = watch.finish(7)
    assert record is not None
    assert (record["step"], record["late"], record["skipped"]) == (7, 3, 1)  # due at 4 and 6
    assert [one["step"] for one in watch.records] == seen == [0, 2, 7]
    assert watch.finish() is watch.finish(7) is None  # once is enough
    assert monitor().finish() is None  # nothing was told, so there is no step to write it under
    put_off = monitor(budget=1e-9)
    for step in range(30):
        put_off.step(step)
    last = put_off.finish()
    assert last is not None, "the budget does not hold for the last state"
    assert last["step"] == 29


def test_a_monitor_draws_its_records() -> None:
    watch = told()
    ax = watch.plot()
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert set(lines) == {"train", "test"}
    assert list(lines["train"].get_xdata()) == [0, 2, 4]
    assert list(lines["train"].get_ydata()) == [record["train"] for record in watch.records]
    assert ax.get_xlabel() == "training step"
    assert ax.get_ylabel() == "mean folds near a point"
    with pytest.raises(ss.InputError, match="among train"):
        watch.plot(["nothing"])
    with pytest.raises(ss.InputError, match="no records"):
        monitor().plot()


def test_nonsense_is_refused() -> None:
    with pytest.raises(ss.InputError, match="logger must be"):
        monitor(logger=3)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ss.MissingExtraError, match=r'pip install "splinescope\[tensorboard\]"'):
        monitor(logger=tmp_path)
