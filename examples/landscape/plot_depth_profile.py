"""
Which layers of a deep network are curved?
==========================================

Thirty layers on the digits, with and without skip connections. `depth_profile` gives, layer by layer, the curvature of
the loss, the effective rank of the map to the outputs and the share of units whose folds pass near the data, all from
one forward and ten backward passes.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope_research import depth_profile
from splinescope_research.folds.depth_profile import partial_rank_correlation


class Deep(nn.Module):
    def __init__(self, skip):
        super().__init__()
        self.skip = skip
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(30))
        self.out = nn.Linear(64, 10)
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            layer.weight.data *= 30**-0.5 if skip else 1

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x)) if self.skip else torch.relu(layer(x))
        return self.out(x)


torch.manual_seed(0)
images, labels = ss.data.digits()
x, y = images[:30].flatten(1), labels[:30]
profiles = {name: depth_profile(Deep(skip).eval(), x, y, loss="cross_entropy", radius=0.5)
            for name, skip in (("plain", False), ("with skips", True))}  # fmt: skip

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for (name, found), color in zip(profiles.items(), ("#56b4e9", "#d55e00"), strict=True):
    axes[0].plot(found.folds, color=color, label=name)
    axes[1].plot(found.map_rank, color=color)
    axes[2].semilogy(found.largest, color=color)
axes[0].set(xlabel="layer", ylabel="share of units with folds at the data", ylim=(0, None))
axes[1].set(xlabel="layer", ylabel="effective rank of the map to the outputs", ylim=(0, 10))
axes[2].set(xlabel="layer", ylabel="largest eigenvalue of the layer")
axes[0].legend(frameon=False)
plt.show()

# %%
# Do folds tell curvature, beyond a layer's place?
for name, found in profiles.items():
    print(name, round(partial_rank_correlation(found.folds, found.largest[:30], range(30)), 2))
