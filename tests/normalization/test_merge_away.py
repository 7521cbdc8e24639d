"""Batch norm merged away in the middle of training: the function stays, the optimiser goes on, at the right time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import MergeAway, merge_batchnorm_, plateaued


def network(bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Linear(3, 8, bias=bias), nn.BatchNorm1d(8), nn.ReLU()),
        *(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)),
    )


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int, told: MergeAway | None = None) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    losses = []
    for step in range(steps):
        if told is not None:
            told.step(step)
        x = torch.randn(32, 3, generator=generator)
        loss = (net(x) - x[:, :2].abs()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_the_function_stays_and_the_optimiser_trains_on(bias, kind):
    net = network(bias)
    optimizer = kind(net.parameters(), lr=1e-2)
    train(net, optimizer, 30)
    weight, x = net[0].weight, torch.randn(50, 3)
    with torch.no_grad():
        before = net.eval()(x)
        net.train()
    changed = merge_batchnorm_(net, optimizer=optimizer)
    assert changed == ("0", "3")
    assert net.training
    assert net[0].weight is weight
    assert not any(isinstance(m, nn.BatchNorm1d) for m in net.modules())
    with torch.no_grad():
        torch.testing.assert_close(net(x), before, atol=1e-5, rtol=1e-5)  # in training mode too: nothing mixes rows now
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in net.parameters()}
    assert all(p not in optimizer.state for p in (net[0].weight, net[3].weight))
    losses = train(net, optimizer, 60)
    assert not torch.equal(net(x), before)
    assert sum(losses[-10:]) < sum(losses[:10])


def test_an_optimiser_of_another_model_is_refused_before_anything_changes():
    net = network()
    with pytest.raises(ss.InputError, match="none of its parameters"):
        merge_batchnorm_(net, optimizer=torch.optim.SGD(network().parameters(), 0.1))
    assert isinstance(net[1], nn.BatchNorm1d)


def test_a_layer_that_was_not_trained_stays_so():
    net = network(bias=False)
    net[0].requires_grad_(False)
    merge_batchnorm_(net)
    assert not net[0].bias.requires_grad
    assert net[3].bias.requires_grad


def test_it_is_merged_with_the_statistics_of_data_if_they_are_given():
    net, x = network(), torch.randn(40, 3)
    with torch.no_grad():
        wanted = ss.normalization.with_statistics(net, x)(x)
    merge_batchnorm_(net, statistics=x)
    torch.testing.assert_close(net(x), wanted, atol=1e-5, rtol=1e-5)


def test_a_norm_without_a_neighbour_stays_as_an_affine_layer_that_is_trained():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    merge_batchnorm_(net, optimizer=optimizer)
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == {id(p) for p in net.parameters()}


def test_it_merges_once_at_its_step_or_at_the_first_one_after_it():
    net = network()
    schedule = MergeAway(net, torch.optim.SGD(net.parameters(), 0.01), at=5)
    assert [schedule.step(step) for step in (0, 4, 7, 8)] == [False, False, True, False]
    assert schedule.merged_at == 7


def test_it_merges_when_local_complexity_plateaus():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 1e-4)
    monitor = ss.ComplexityMonitor(net, torch.randn(20, 3), radius=0.5, schedule=ss.train.Every(2))
    schedule = MergeAway(net, optimizer, plateau=(monitor, "points"), patience=3, tolerance=0.2)
    for step in range(12):
        monitor.step(step)
        schedule.step(step)
    assert schedule.merged_at == 4  # at so small a rate the first three records agree
    wrong = MergeAway(net, optimizer, plateau=(monitor, "nothing"))
    with pytest.raises(ss.InputError, match="'nothing'; there are"):
        wrong.step(0)


def test_a_plateau_needs_enough_values_that_agree():
    assert not plateaued([1.0, 1.0], patience=3)
    assert plateaued([7.0, 1.0, 1.0, 1.02], patience=3, tolerance=0.05)
    assert not plateaued([1.0, 1.0, 1.1], patience=3, tolerance=0.05)
    assert plateaued([-1.0, -1.0, -1.01], patience=3, tolerance=0.05)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # lightning's own use of torch
def test_lightning_tells_it(tmp_path: Path):
    lightning = pytest.importorskip("lightning.pytorch", reason="no lightning", exc_type=ImportError)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.1)

    module = Module()
    schedule = MergeAway(module, lambda: trainer.optimizers[0], at=3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(24, 3)), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", callbacks=[ss.train.lightning_callback(schedule)], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, loader)
    assert schedule.merged_at == 3
    assert not any(isinstance(m, nn.BatchNorm1d) for m in module.modules())


def test_hugging_face_tells_it():
    pytest.importorskip("transformers", reason="no transformers", exc_type=ImportError)
    net = network()
    schedule = MergeAway(net, lambda: torch.optim.SGD(net.parameters(), 0.1), at=2)
    callback = ss.train.trainer_callback(schedule)
    for step in range(3):
        state = SimpleNamespace(global_step=step, is_world_process_zero=False)  # it is told on every process
        callback.on_step_end(None, state, None)
    callback.on_train_end(None, state, None)
    assert schedule.merged_at == 2


class Told(nn.Module):
    """A network with its loss, as the trainer of Hugging Face wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network(bias=False)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.net(x) - labels).square().mean()}


def test_the_trainer_of_hugging_face_trains_on_without_it(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="no transformers", exc_type=ImportError)
    pytest.importorskip("accelerate", reason="no accelerate, which the trainer needs", exc_type=ImportError)
    model = Told()
    rows = [{"x": x, "labels": x[:2].abs()} for x in torch.randn(16, 3)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=6, per_device_train_batch_size=8, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model, options, train_dataset=rows)
    schedule = MergeAway(model.net, lambda: trainer.optimizer, at=3)
    trainer.add_callback(ss.train.trainer_callback(schedule))
    trainer.train()
    assert schedule.merged_at == 3
    assert not any(isinstance(m, nn.BatchNorm1d) for m in model.modules())
    held = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()}  # the bias that merging made among them
    assert trainer.optimizer.state[model.net[0].bias]["step"] == 3  # it was trained from there on


def test_what_makes_no_sense_is_refused():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ss.InputError, match="either at="):
        MergeAway(net, optimizer)
    with pytest.raises(ss.InputError, match=r"function that returns it .* got NoneType"):
        MergeAway(net, None, at=2)
    with pytest.raises(ss.InputError, match="pair"):
        MergeAway(net, optimizer, plateau="points")
    with pytest.raises(ss.InputError, match="found none"):
        merge_batchnorm_(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ss.InputError, match="itself"):
        merge_batchnorm_(nn.BatchNorm1d(3))
