"""The monitor in a training loop: what it writes, how it resumes, what it costs."""

import copy
import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.complexity import ComplexityMonitor, local_complexity
from splinescope.train import At, Every, LogSpaced
from splinescope.train.schedules import BUDGET, EARLY, Schedule

from .models import mlp, normed


def small(model: nn.Module | None = None, x: Any = None, **options: Any) -> ComplexityMonitor:
    """A monitor without a budget, of a small network about two points unless others are given."""
    x = torch.zeros(2, 3) if x is None else x
    return ComplexityMonitor(mlp(3, 4, 2) if model is None else model, x, **{"radius": 0.3, "budget": None, **options})


def steps_of(schedule: object, count: int) -> list[int | None]:
    step: int | None = -1
    return [step := schedule.next_after(step) for _ in range(count)]  # type: ignore[attr-defined]


def test_schedules_are_increasing_and_spaced_as_said() -> None:
    assert steps_of(Every(100), 3) == [0, 100, 200]
    assert steps_of(At([5, 1, 5]), 3)[:2] == [1, 5]
    assert At([5]).next_after(5) is None
    log = steps_of(LogSpaced(10), 60)
    assert all(a < b for a, b in itertools.pairwise(log))
    assert {1, 10, 100, 1000, 10_000} <= set(log)
    ratios = [b / a for a, b in itertools.pairwise(log) if a and a > 100]
    assert ratios == pytest.approx([10**0.1] * len(ratios), rel=0.01)  # rounding to whole steps


def test_the_monitor_records_what_local_complexity_says(tmp_path: Path) -> None:
    model = mlp(3, 12, 12, 2).train()
    x = torch.randn(9, 3)
    points, metrics = {"train": x[:5], "test": x[5:]}, {"bias": lambda m: m[0].bias.sum()}
    monitor = small(model, points, schedule=Every(2), out=tmp_path, metrics=metrics)
    assert [step for step in range(5) if monitor.step(step)] == [0, 2, 4]
    assert model.training
    expected = local_complexity(model, x[:5], radius=0.3)
    record = monitor.records[-1]
    assert record["train"] == pytest.approx(float(expected.total.double().mean()))
    assert record["train/1 3 relu"] == pytest.approx(float(expected.counts[:, 1].double().mean()))
    assert record["bias"] == pytest.approx(float(model[0].bias.detach().sum()))
    lines = [json.loads(line) for line in (tmp_path / "complexity.jsonl").read_text().splitlines()]
    assert lines[0]["radius"] == 0.3
    assert [line["step"] for line in lines[1:]] == [0, 2, 4]
    assert lines[-1]["test"] == record["test"]


def test_an_interrupted_run_is_continued(tmp_path: Path) -> None:
    def new() -> ComplexityMonitor:
        return small(schedule=Every(2), out=tmp_path, snapshots=True)

    first = new()
    for step in range(7):
        first.step(step)
    with (tmp_path / "complexity.jsonl").open("a") as file:
        file.write('{"step": 8, "sec')  # the process died while writing
    second = new()
    assert [r["step"] for r in second.records] == [0, 2, 4, 6]
    for step in range(3, 9):  # from a checkpoint of step 3: what came after is measured again
        second.step(step)
    assert [r["step"] for r in second.records] == [0, 2, 4, 6, 8]
    assert [r["step"] for r in new().records] == [0, 2, 4, 6, 8]
    saved = sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    assert saved == [f"step-{s:09d}.safetensors" for s in (0, 2, 4, 6, 8)]
    with pytest.raises(ss.InputError, match=r"another measurement: radius is 0\.3 there and 0\.5 here\.") as refused:
        small(radius=0.5, out=tmp_path)
    assert "{" not in str(refused.value)


def test_a_run_that_is_set_back_to_a_measured_step_measures_it_again(tmp_path: Path) -> None:
    """The record of the very step that training starts from is of the weights that it starts from."""

    def records(run: float, first: int, last: int) -> list[tuple[int, float]]:
        monitor = small(schedule=Every(2), out=tmp_path, metrics={"run": lambda _: run})
        for step in range(first, last + 1):
            monitor.step(step)
        return [(r["step"], r["run"]) for r in monitor.records]

    assert records(1.0, 0, 6) == [(0, 1.0), (2, 1.0), (4, 1.0), (6, 1.0)]
    assert records(2.0, 4, 5) == [(0, 1.0), (2, 1.0), (4, 2.0)]


@pytest.mark.parametrize("text", ["my notes", "my notes\nof two lines", "3\n"])
def test_files_of_others_are_not_written_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "complexity.jsonl").write_text(text)
    with pytest.raises(ss.FileFormatError, match="line 1 is not"):
        small(out=tmp_path)
    assert (tmp_path / "complexity.jsonl").read_text() == text
    with pytest.raises(ss.InputError, match="out must be a folder"):
        small(out=tmp_path / "complexity.jsonl")


class Clock:
    """A clock that stands still unless told."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    import splinescope.train.monitor as training

    clock = Clock()
    monkeypatch.setattr(training, "time", clock)
    return clock


def priced(clock: Clock, schedule: Schedule, budget: float, cold: float, price: float) -> ComplexityMonitor:
    """A monitor whose measurements take `price` seconds, the first one `cold` more."""
    prices = itertools.chain([cold + price], itertools.repeat(price))

    def pay(_: nn.Module) -> float:
        clock.now += next(prices)
        return 0.0

    return small(schedule=schedule, budget=budget, metrics={"price": pay})


@pytest.mark.parametrize(("budget", "cold"), [(0.1, 0.0), (0.02, 0.0), (0.1, 500.0)])
def test_a_budget_is_used_up_and_in_the_long_run_not_exceeded(clock: Clock, budget: float, cold: float) -> None:
    """Steps and measurements take 1 second: after the first ones, which are on credit, made when affordable."""
    monitor = priced(clock, Every(1), budget, cold, 1.0)
    assert monitor.overhead == 0.0
    for step in range(1200):
        made = monitor.step(step) is not None
        measured = len(monitor.records)
        affordable = measured <= EARLY or measured <= budget * (clock.now - cold) + 1e-9
        assert affordable if made else measured >= EARLY and measured + 1 > budget * (clock.now - cold + 1), step
        if made and measured > EARLY:
            assert monitor.overhead <= budget + 1e-9
        clock.now += 1.0
    assert [r["step"] for r in monitor.records[:EARLY]] == list(range(EARLY))  # the early phase is seen
    assert measured >= EARLY + 10 * (budget == 0.1)  # neither the cold start nor the credit has blocked what came after
    assert monitor.overhead <= budget + 1e-9
    assert monitor.preparation == pytest.approx(cold)
    assert all(b["step"] - b["late"] == a["step"] + 1 for a, b in itertools.pairwise(monitor.records))
    assert len(monitor.records) + monitor.skipped == 1200  # every due one was made or is told


def test_a_gradient_may_be_taken_across_a_measurement() -> None:
    model, x = normed().train(), torch.randn(8, 3)
    monitor = small(model, x)
    loss = model(x).square().sum()
    monitor.measure(0)
    loss.backward()
    assert model[0].weight.grad is not None


def test_a_run_that_starts_over_does_not_replace_the_earlier_curve(tmp_path: Path) -> None:
    def start(first: int, **options: object) -> ComplexityMonitor:
        monitor = small(schedule=Every(2), out=tmp_path, budget=BUDGET, **options)
        for step in range(first, first + 5):
            monitor.step(step)
        return monitor

    start(2)
    curve = (tmp_path / "complexity.jsonl").read_text()
    for first in (0, 2):
        with pytest.raises(ss.InputError, match=r"steps 2 to 6.*starts at step .*overwrite=True"):
            start(first)
    assert (tmp_path / "complexity.jsonl").read_text() == curve
    assert [r["step"] for r in start(7).records] == [2, 4, 6, 8, 10]
    assert [r["step"] for r in start(0, overwrite=True).records] == [0, 2, 4]


def test_activations_without_a_module_have_a_name() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.first(x)))

    record = small(Plain()).measure(0)
    assert "points/0 relu" in record
    assert all(name == name.strip() for name in record)


def test_a_diverged_run_is_recorded_not_ended(tmp_path: Path) -> None:
    model = mlp(3, 4, 2)
    monitor = small(model, schedule=Every(1), out=tmp_path)
    monitor.step(0)
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    monitor.step(1)
    again = small(model, schedule=Every(1), out=tmp_path)
    assert math.isnan(again.records[1]["points"])
    assert not math.isnan(again.records[0]["points"])


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ss.InputError, match="budget"):
        small(budget=2.0)
    with pytest.raises(ss.InputError, match="give out="):
        small(snapshots=True)
    for wrong, message in (
        ({"method": "exact"}, "method must be one of 'frame', 'distance'"),
        ({"schedule": 10}, "schedule must be"),
        ({"x": torch.zeros(0, 3)}, "got none"),
        ({"x": {}}, "got none"),
    ):
        with pytest.raises(ss.InputError, match=message):
            small(**wrong)
    for bad in (LogSpaced, Every):
        with pytest.raises(ss.InputError, match="whole number"):
            bad(0)


class Classifier(nn.Module):
    """A model as the Hugging Face trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3, 8, 2)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else logits.sum()
        return {"loss": loss, "logits": logits}


def test_callback_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="no transformers", exc_type=ImportError)
    pytest.importorskip("accelerate", reason="no accelerate, which the trainer needs", exc_type=ImportError)
    from splinescope.train import trainer_callback

    model = Classifier()
    monitor = small(model, torch.randn(4, 3), schedule=Every(2))
    rows = [{"x": torch.randn(3), "labels": torch.tensor(i % 2)} for i in range(10)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=5, per_device_train_batch_size=2, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    callback = trainer_callback(monitor)
    transformers.Trainer(model, options, train_dataset=rows, callbacks=[callback]).train()
    assert [r["step"] for r in monitor.records] == [0, 2, 4, 5]  # and the last state
    assert model.training
    callback.on_step_end(None, SimpleNamespace(global_step=9, is_world_process_zero=False), None)
    assert len(monitor.records) == 4  # the main process alone measures


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # lightning's own use of torch
def test_callback_of_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="no lightning", exc_type=ImportError)
    from splinescope.train import lightning_callback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(3, 8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return self(batch[0]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Module()
    monitor = small(module, torch.randn(4, 3), schedule=Every(2))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(10, 3)), batch_size=2)
    trainer = lightning.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", callbacks=[lightning_callback(monitor)], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, loader)
    assert [r["step"] for r in monitor.records] == [0, 2, 4, 5]  # and the last state


def test_a_step_that_goes_back_is_said_once_and_not_measured() -> None:
    monitor = small(schedule=Every(1), budget=BUDGET)
    for step in (0, 1, 1, 2):
        monitor.step(step)
    with pytest.warns(
        UserWarning, match=r"told step 0 after step 2; .* until steps pass 2\. Count steps on over epochs"
    ):
        assert monitor.step(0) is None
    for step in (1, 2, 3):  # said once; what comes after the last step is measured again
        monitor.step(step)
    assert [record["step"] for record in monitor.records] == [0, 1, 2, 3]


def test_batch_norm_is_measured_with_the_statistics_of_the_data() -> None:
    from splinescope.normalization import with_statistics

    model, x = normed().train(), 3 + torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    sets = {"test": x[:10], "train": x[10:]}

    def first(**options: object) -> dict:
        return ComplexityMonitor(model, sets, radius=0.3, **options).measure(0)

    def count(network: nn.Module) -> float:
        return float(local_complexity(copy.deepcopy(network).eval(), x[:10], radius=0.3).total.double().mean())

    data, running, all_rows = first(), first(statistics="running"), first(statistics_from=x)
    assert (data["statistics"], running["statistics"]) == ("data", "running")
    assert data["test"] == pytest.approx(count(with_statistics(model, x[10:])))
    assert all_rows["test"] == pytest.approx(count(with_statistics(model, x)))
    assert running["test"] == pytest.approx(count(model))
    assert data["test"] > 2 * running["test"]  # folds pass through the data, not where averages lag
    assert all(
        now is kept and torch.equal(now, value) for now, (kept, value) in zip(model.buffers(), before, strict=True)
    )
    assert all(module.training for module in model.modules())
    assert ComplexityMonitor(mlp(3, 4, 2), x, radius=0.3).measure(0)["statistics"] == "none"
    assert ComplexityMonitor(normed(), x[:1], radius=0.3).measure(0)["statistics"] == "running"  # one row has none
    with pytest.raises(ss.InputError, match="statistics must be one of"):
        first(statistics="batch")


def test_points_that_a_batch_normed_network_does_not_take_are_named() -> None:
    monitor = ComplexityMonitor(normed(), torch.randn(5, 7), radius=0.3)
    with pytest.raises(ss.InputError, match=r"does not take points of shape \(7,\)"):
        monitor.measure(0)
