"""
Folds of a classifier of digits, near images and far from them
===============================================================

The inputs of MNIST have 784 dimensions: no tiling reaches that far, but straight lines do. How often random lines cross
the folds of a network tells how densely these lie, without bias and with an error bar. Here it is a classifier that
other people trained (784-10-10-10, from Marabou, modified BSD license), about 100 test images and in the box of all.

The network is not part of this repository: the script finds it below the folder that `SPLINESCOPE_TEST_DATA` names.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import splinescope as ss

folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data"))
network = ss.load(folder / "onnx_mnist" / "mnist2x10.onnx")
table = np.loadtxt(folder / "cifar10_100" / "mnist_test.csv", delimiter=",")
images = (table[:, 1:] / 255).reshape(-1, *network.input_shape)
generator = torch.Generator().manual_seed(0)
radii = (0.5, 1.0, 2.0, 4.0)
near = [ss.space.fold_census(network, images, radius=radius, lines=64, generator=generator) for radius in radii]
zeros, ones = np.zeros(network.input_shape), np.ones(network.input_shape)
far = ss.space.fold_census(network, (zeros, ones), lines=4000, generator=generator)
print(near[0].summary())

# %%
# The folds lie about five times as densely around images as in the box of all images, in balls of every size tried. A
# frame of fixed radius cannot tell a fold that it misses from one that is not there.
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.errorbar(radii, [one.total for one in near], [one.total_error for one in near], marker="o", label="about images")
ax.axhspan(far.total - far.total_error, far.total + far.total_error, color="0.8", label="in the box of all images")
ax.set(xscale="log", xlabel="radius of the balls", ylabel="crossings per length", ylim=(0, None))
ax.legend()
plt.show()

# %%
# Per image: a local complexity that is comparable between networks, widths and input sizes.
outputs = network.program().forward(torch.from_numpy(images))
lead = outputs.topk(2, dim=1).values.diff(dim=1).neg()[:, 0]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.scatter(lead, near[1].by_point, s=14)
ax.set(xlabel="lead of the winning class", ylabel="crossings per length within radius 1")
plt.show()
