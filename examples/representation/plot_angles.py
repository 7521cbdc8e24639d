"""
What each component does to angles
==================================

The mean angle between the points of a batch of digits through 30 random layers, for four choices of components, and
the limits that the expected Gram matrix predicts without sampling a single weight.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

from splinescope.representation import representation_geometry
from splinescope_research import random_network
from splinescope_research.random_layers.expected_gram import follow_expected_gram

batch = torch.from_numpy(load_digits().data[:32] / 16.0)
choices = {
    "ReLU only": {"components": ("nl",)},
    "rescaling by rms + ReLU": {"components": ("rs", "nl"), "spread": "rms"},
    "recentering + ReLU": {"components": ("rc", "nl")},
    "recentering + rescaling + ReLU": {"components": ("rc", "rs", "nl")},
}

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, options in choices.items():
    generator = torch.Generator().manual_seed(0)
    network = random_network(30, 200, in_features=64, dtype=torch.float64, generator=generator, **options)
    geometry = representation_geometry(network, batch, method="hooks")
    mean = [layer.mean_angle for layer in geometry if layer.op in ("input", "ReLU")]
    (line,) = ax.plot(range(len(mean)), mean, label=name)
    gram = (batch @ batch.T).numpy()
    for depth in (10, 20, 30):
        gram, _ = follow_expected_gram(gram, 10, **options)
        norms = np.sqrt(np.diagonal(gram))
        cosine = (gram / np.outer(norms, norms))[np.triu_indices(32, 1)]
        ax.plot(depth, np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean(), "o", color=line.get_color())
ax.set_xlabel("layer (dots: expected Gram matrix, no sampling)")
ax.set_ylabel("mean angle of two digits (degrees)")
ax.legend(frameon=False)
