"""
What a skip connection does to a layer
======================================

Condition numbers of random layers: without a skip a ReLU layer is singular, with one it is bounded as long as the
branch is small.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch

from splinescope.plot.landscape import plot_conditioning
from splinescope_research.loss.conditioning import random_conditioning

generator = torch.Generator().manual_seed(0)
layers = {
    f"{'I + ' if skip else ''}DW, {activation}": random_conditioning(
        32, 0.4, activation, skip=skip, draws=60, generator=generator
    )
    for skip in (False, True)
    for activation in ("relu", "abs")
}
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot_conditioning(layers, ax)
ax.set_title("green: the bound, where there is one")
plt.show()
