"""Training runs on digits, long after the training set is learned, with local complexity and robustness measured."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.complexity import local_complexity, robustness
from splinescope.data.digits import digits
from splinescope.network.watching.batch_statistics import statistics_of
from splinescope.support.evaluating import evaluating
from splinescope.train import LogSpaced
from splinescope_evidence.framework.experiment import Progress

EPSILON = 0.1  # of the L-inf attack, on pixels in [0, 1]
RADIUS = 0.05  # of the frame


@dataclass(frozen=True)
class Setting:
    """One training run; equal settings give equal runs."""

    seed: int = 0
    steps: int = 30_000
    width: int = 200
    train: int = 1000
    batch: int = 200
    rate: float = 1e-3
    decay: float = 0.0
    loss: Literal["mse", "cross_entropy"] = "mse"
    batch_norm: bool = False
    points: int = 200
    per_decade: int = 8


@dataclass
class Run:
    """What was measured: `[T]` arrays over `steps`, and the parameters at each of them.

    With batch norm, local complexity is that with the statistics of the training set; `lc_running` is that at training
    points with the running averages.
    """

    steps: list[int] = field(default_factory=list)
    lc_train: list[float] = field(default_factory=list)
    lc_running: list[float] = field(default_factory=list)
    lc_test: list[float] = field(default_factory=list)
    lc_random: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    states: list[dict[str, Tensor]] = field(default_factory=list)

    def curves(self) -> dict[str, Any]:
        """Everything but the parameters, ready for JSON."""
        return {name: values for name, values in vars(self).items() if name != "states"}

    @property
    def interpolation(self) -> int:
        """Index of the first record from which on the training accuracy stays above 0.995; -1 if it never does."""
        low = [i for i, accuracy in enumerate(self.train_accuracy) if accuracy <= 0.995]
        first = (low[-1] + 1) if low else 0
        return first if first < len(self.steps) else -1


def network(setting: Setting) -> nn.Sequential:
    """The MLP 64-w-w-w-10, PyTorch's default initialization."""
    layers: list[nn.Module] = [nn.Flatten()]
    size = 64
    for _ in range(3):
        layers += [nn.Linear(size, setting.width)]
        layers += [nn.BatchNorm1d(setting.width)] if setting.batch_norm else []
        layers += [nn.ReLU()]
        size = setting.width
    return nn.Sequential(*layers, nn.Linear(size, 10))


def sets(setting: Setting) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, test images and labels, shuffled by the seed."""
    images, labels = digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(setting.seed))
    train, test = order[: setting.train], order[setting.train :]
    return images[train], labels[train], images[test], labels[test]


@lru_cache(maxsize=16)
def train(setting: Setting) -> Run:
    """Train and measure at log-spaced steps. The global random state is left as found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = network(setting)
    x, y, x_test, y_test = sets(setting)
    targets = F.one_hot(y, 10).float()
    generator = torch.Generator().manual_seed(setting.seed)
    noise = torch.rand(setting.points, *x.shape[1:], generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), setting.rate, weight_decay=setting.decay)
    run = Run()
    schedule = LogSpaced(setting.per_decade)
    due: int | None = 0
    for step in range(setting.steps + 1):
        if step == due or step == setting.steps:
            _measure(run, model, step, setting, x, y, x_test, y_test, noise)
            due = schedule.next_after(step)
        rows = torch.randint(len(x), (setting.batch,), generator=generator)
        scores = model(x[rows])
        loss = F.mse_loss(scores, targets[rows]) if setting.loss == "mse" else F.cross_entropy(scores, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return run


def _measure(
    run: Run, model: nn.Module, step: int, setting: Setting,
    x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, noise: Tensor,
) -> None:  # fmt: skip
    n = setting.points
    run.steps.append(step)
    run.lc_running.append(_folds(model, x[:n]))
    with statistics_of(model, x):
        for curve, points in ((run.lc_train, x[:n]), (run.lc_test, x_test[:n]), (run.lc_random, noise)):
            curve.append(_folds(model, points))
    model.eval()
    with torch.no_grad():
        run.train_accuracy.append(float((model(x).argmax(1) == y).double().mean()))
        run.test_accuracy.append(float((model(x_test).argmax(1) == y_test).double().mean()))
    run.states.append(copy.deepcopy(model.state_dict()))
    model.train()


def _folds(model: nn.Module, points: Tensor) -> float:
    with evaluating(model):
        return float(local_complexity(model, points, radius=RADIUS).total.double().mean())


def at_state(setting: Setting, run: Run, index: int) -> nn.Module:
    """The network at one record, in evaluation mode."""
    model = network(setting)
    model.load_state_dict(run.states[index])
    return model.eval()


def attacked(setting: Setting, run: Run, indices: list[int], *, strong: bool = True) -> list[dict[str, Any]]:
    """Accuracy on test points at some records under the union of attacks: by gradient with restarts, by scores alone,
    and by the points that break the network at the other records.
    """
    _, _, x_test, y_test = sets(setting)
    models = [at_state(setting, run, i) for i in indices]
    steps, restarts, queries = (40, 3, 400) if strong else (5, 1, 10)
    rows = []
    for place, model in enumerate(models):
        found = robustness(
            model, x_test[: setting.points], y_test[: setting.points], epsilons=[EPSILON], steps=steps,
            restarts=restarts, queries=queries, bounds=(0.0, 1.0), transfer_from=models[:place] + models[place + 1 :],
        )  # fmt: skip
        assert found.transfer is not None
        rows.append(
            {
                "step": run.steps[indices[place]],
                "accuracy": float(found.accuracy[0]),
                "gradient": float(found.gradient[0]),
                "search": float(found.search[0]),
                "transfer": float(found.transfer[0]),
                "masked": found.masked,
            }
        )
    return rows


def train_all(settings: list[Setting], progress: Progress | None, share: float = 1.0) -> list[Run]:
    """Train several settings, reporting between them."""
    runs = []
    for number, setting in enumerate(settings):
        if progress:
            what = f"{setting.loss}{', batch norm' if setting.batch_norm else ''}, seed {setting.seed}"
            progress(share * number / len(settings), what)
        runs.append(train(setting))
    return runs


def quick(seed: int, **changes: Any) -> Setting:
    """A small network on few digits at a high rate, for a second."""
    options = {"steps": 400, "width": 32, "train": 100, "rate": 4e-3, "points": 30, "per_decade": 3, **changes}
    return Setting(seed=seed, **options)


def draw_curve(ax: Any, curves: dict[str, Any], names: dict[str, str], label: str) -> None:
    """Curves over steps on a logarithmic axis that has room for step 0."""
    steps = np.maximum(np.asarray(curves["steps"], float), 0.5)
    for (name, text), color in zip(names.items(), ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=False):
        ax.plot(steps, curves[name], color=color, label=text)
    ax.set_xscale("log")
    ax.set_xlabel("training step (0 drawn at 0.5)")
    ax.set_ylabel(label)
    ax.legend(frameon=False, fontsize="small")
