"""Networks that other people trained, found by SPLINESCOPE_TEST_DATA (default: shared/data beside the repository)."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

FOLDER = Path(os.environ.get("SPLINESCOPE_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

needs_real_networks = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the trained networks are not at {FOLDER}; set SPLINESCOPE_TEST_DATA"
)


def mountain_car(agent: str) -> nn.Sequential:
    """The DQN's Q-network 2-256-256-3, or the SAC actor 2-64-64-1 with its clip, on the true state."""
    file, prefix, layers = {
        "dqn": ("dqn_MountainCar-v0.zip", "q_net.q_net", (0, 2, 4)),
        "sac": ("sac_MountainCarContinuous-v0.zip", "actor", ("latent_pi.0", "latent_pi.2", "mu.0")),
    }[agent]
    with zipfile.ZipFile(FOLDER / "rl_policies" / file) as archive, archive.open("policy.pth") as stream:
        state = torch.load(stream, weights_only=True, map_location="cpu")
    linears = []
    for layer in layers:
        weight = state.get(f"{prefix}.{layer}.weight")
        if weight is None:  # an actor without the clip has "mu" itself
            weight, layer = state[f"{prefix}.mu.weight"], "mu"
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": state[f"{prefix}.{layer}.bias"]})
        linears.append(linear)
    clip = [nn.Hardtanh(-2.0, 2.0)] if agent == "sac" else []
    return nn.Sequential(linears[0], nn.ReLU(), linears[1], nn.ReLU(), linears[2], *clip).eval()


MOUNTAIN_CAR_STATES = ([-1.2, -0.07], [0.6, 0.07])


class _Block(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes)
        self.pad = planes // 4 if stride != 1 else 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


class ResNet20(nn.Module):
    """He et al.'s CIFAR ResNet-20 with shortcuts that subsample and pad."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(_Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(_Block(16, 32, 2), _Block(32, 32, 1), _Block(32, 32, 1))
        self.layer3 = nn.Sequential(_Block(32, 64, 2), _Block(64, 64, 1), _Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(F.avg_pool2d(x, x.shape[3]).flatten(1))


def resnet20() -> ResNet20:
    """The trained ResNet-20, in eval mode."""
    archive = torch.load(FOLDER / "resnet_cifar10" / "resnet20-12fca82f.th", weights_only=True, map_location="cpu")
    model = ResNet20()
    model.load_state_dict({key.removeprefix("module."): value for key, value in archive["state_dict"].items()})
    return model.eval()


def cifar_images() -> tuple[Tensor, Tensor]:
    """100 test images `[100, 3, 32, 32]`, normalized as the ResNet expects, and their labels."""
    table = np.loadtxt(FOLDER / "cifar10_100" / "cifar10_test.csv", delimiter=",")
    images = torch.from_numpy(table[:, 1:].reshape(-1, 32, 32, 3) / 255.0).permute(0, 3, 1, 2)
    mean = torch.tensor([0.485, 0.456, 0.406], dtype=torch.float64).reshape(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64).reshape(3, 1, 1)
    return ((images - mean) / std).float(), torch.from_numpy(table[:, 0]).long()


def mnist_images() -> tuple[Tensor, Tensor]:
    """100 test images `[100, 28, 28]` in [0, 1] and their labels."""
    table = np.loadtxt(FOLDER / "cifar10_100" / "mnist_test.csv", delimiter=",")
    return torch.from_numpy(table[:, 1:].reshape(-1, 28, 28) / 255.0).float(), torch.from_numpy(table[:, 0]).long()
