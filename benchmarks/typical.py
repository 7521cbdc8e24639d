"""Measures the table of typical values that reports compare with: `python -m benchmarks.typical`.

The networks are those that the tests read (SPLINESCOPE_TEST_DATA), all trained by other people; each is measured
on the test images it was made for. Rewrites rows of src/splinescope/reports/typical.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from tests import real
from torch import Tensor, nn

import splinescope as ss
from splinescope.reports.typical import MAIN, main_number

TARGET = Path(__file__).resolve().parents[1] / "src" / "splinescope" / "reports" / "typical.json"
Case = Callable[[], tuple[nn.Module | ss.SplineNetwork, Tensor, Tensor | None]]


def _mnist(file: str) -> Case:
    def case() -> tuple[ss.SplineNetwork, Tensor, Tensor]:
        net = ss.load(real.FOLDER / "onnx_mnist" / file)
        images, labels = real.mnist_images()
        return net, images.reshape(-1, *net.input_shape).float(), labels

    return case


def _acas() -> tuple[ss.SplineNetwork, Tensor, None]:
    net = ss.load(real.FOLDER / "acasxu" / "ACASXU_run2a_1_1_batch_2000.nnet")
    return net, torch.rand(200, *net.input_shape, generator=torch.Generator().manual_seed(0)) - 0.5, None


def _mountain_car() -> tuple[nn.Module, Tensor, None]:
    low, high = map(torch.tensor, real.MOUNTAIN_CAR_STATES)
    return (
        real.mountain_car("dqn"),
        low + (high - low) * torch.rand(200, 2, generator=torch.Generator().manual_seed(0)),
        None,
    )


def _resnet() -> tuple[nn.Module, Tensor, Tensor]:
    return real.resnet20(), *real.cifar_images()


CASES: dict[str, Case] = {
    "MLP 784-10-10-10 on MNIST": _mnist("mnist2x10.onnx"),
    "leaky MLP 5x20 on MNIST": _mnist("mnist5x20_leaky_relu.onnx"),
    "max-pool CNN on MNIST": _mnist("cnn_max_mninst2.onnx"),
    "ACAS Xu 1-1": _acas,
    "DQN on MountainCar": _mountain_car,
    "ResNet-20 on CIFAR-10": _resnet,
}


def main() -> None:
    """Measure the networks named as arguments (all of them by default); rows of others stay."""
    names = sys.argv[1:] or list(CASES)
    for name in names:
        model, x, y = CASES[name]()
        found = ss.report(model, x, y, out=None, progress=False)
        print(name, found, found.summary(), sep="\n", flush=True)
        numbers = {block.key: main_number(block) for block in found if block.key in MAIN}
        table = json.loads(TARGET.read_text(encoding="utf-8"))
        table[name] = {key: float(f"{value:.4g}") for key, value in numbers.items() if value is not None}
        ordered = {known: table[known] for known in CASES if known in table}
        TARGET.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
