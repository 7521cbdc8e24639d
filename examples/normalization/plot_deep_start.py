"""
Where do folds lie in a deep network before training?
=====================================================

Thirty layers, each followed by a layer norm. With He weights all points come out alike after some layers, although
layer norm keeps their size; with folds placed by the data (`initialize_`, which sets the norms' own weights) they stay
apart, at the price of one forward pass a layer.
"""

import copy

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss

torch.manual_seed(0)
x, _ = ss.data.digits()
x = x[:300].flatten(1).double()

layers = []
for inputs in (64, *[64] * 29):
    linear = nn.Linear(inputs, 64)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    layers += [linear, nn.LayerNorm(64), nn.ReLU()]
plain = nn.Sequential(*layers, nn.Linear(64, 10)).double()

placed = copy.deepcopy(plain)
done = ss.initialize_(placed, x)
print(done.layers[:3], "...: the norms, not the linear maps, have the last word on the folds")


def through_depth(model):
    """Share of units whose fold has data on both sides, and the dimension of the features, layer after layer."""
    split, dimension, h = [], [], x
    with torch.no_grad():
        for layer in model[:-1]:
            if isinstance(layer, nn.ReLU):
                split.append(float(((h > 0).any(0) & (h < 0).any(0)).double().mean()))
                values = torch.linalg.svdvals(h - h.mean(0)).square()
                dimension.append(float(values.sum() ** 2 / values.square().sum()))
            h = layer(h)
    return split, dimension


figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, model, color in (("He weights", plain, "#56b4e9"), ("placed by data", placed, "#d55e00")):
    for ax, values in zip(axes, through_depth(model), strict=True):
        ax.plot(range(1, 31), values, color=color, label=name)
axes[0].set(xlabel="layer", ylabel="share of folds that split the data", ylim=(0, 1.05))
axes[1].set(xlabel="layer", ylabel="dimension of the pre-activations", ylim=(0, None))
axes[0].legend(frameon=False)
plt.show()
