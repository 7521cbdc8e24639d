"""The table of networks, with their degenerate entries, that every routine of this part meets."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.short = nn.Identity() if channels_in == channels else nn.Conv2d(channels_in, channels, 1)

    def forward(self, x):
        return torch.relu(self.short(x) + self.second(torch.relu(self.norm(self.first(x)))))


def _mlp():
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.LeakyReLU(0.2), nn.Linear(5, 2))


def _linear():
    return nn.Sequential(nn.Linear(3, 2))


def _dead_and_twin_units():
    net = _mlp()
    with torch.no_grad():
        net[0].bias[0], net[0].weight[0] = -10.0, 0.0
        net[0].weight[2], net[0].bias[2] = net[0].weight[1], net[0].bias[1]
    return net


def _no_bias():
    return nn.Sequential(nn.Linear(3, 6, bias=False), nn.ReLU(), nn.Linear(6, 2, bias=False))


def _large_scale():
    net = _mlp()
    with torch.no_grad():
        net[0].weight *= 1e8
    return net


def _convnet():
    net = nn.Sequential(
        *(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 4)),
        *(nn.PReLU(4), nn.Linear(4, 2)),
    )
    net[1].running_mean.uniform_(-0.2, 0.2)
    net[1].running_var.uniform_(0.5, 2.0)
    return net


def _resnet():
    return nn.Sequential(Residual(1, 2), Residual(2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))


CASES = {  # name: (make, input shape, the layer that moves)
    "mlp, first layer": (_mlp, (3,), "0"),
    "mlp, middle layer": (_mlp, (3,), "2"),
    "mlp, last layer": (_mlp, (3,), "4"),
    "no hidden layer": (_linear, (3,), "0"),
    "dead and duplicate units": (_dead_and_twin_units, (3,), "0"),
    "no biases": (_no_bias, (3,), "0"),
    "scale 1e8": (_large_scale, (3,), "2"),
    "convnet, convolution": (_convnet, (1, 6, 6), "0"),
    "convnet, batch norm": (_convnet, (1, 6, 6), "1"),
    "convnet, slopes of prelu": (_convnet, (1, 6, 6), "6"),
    "resnet, convolution in a branch": (_resnet, (1, 4, 4), "1.first"),
}


def case(name, points=6):
    """(model in eval mode and float64, inputs, targets, layer), seeded."""
    make, shape, layer = CASES[name]
    torch.manual_seed(7)
    model = make().double().eval()
    return model, torch.randn(points, *shape).double(), torch.randn(points, 2).double(), layer


def parameters(model):
    return {name: p.detach() for name, p in model.named_parameters()}


def direction(model, layer, seed=0):
    """A Gaussian direction in the parameters of one layer, scaled like them."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=torch.float64) * p.abs().max().clamp_min(0.1)
        for name, p in parameters(model).items()
        if name.startswith(f"{layer}.")
    }


def autograd_loss(model, x, y, directions, t):
    """Mean squared distance at parameters theta0 + t @ directions, by the torch module itself."""
    moved = parameters(model)
    for amount, change in zip(t, directions, strict=True):
        for name, value in change.items():
            moved[name] = moved[name] + float(amount) * value
    with torch.no_grad():
        outputs = torch.func.functional_call(model, moved, (x,))
    return float((outputs - y).square().sum() / len(x))
