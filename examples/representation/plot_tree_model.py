"""
The tree model, ten thousand layers deep
========================================

In the tree model a row becomes two, its part above the mean and its part below. The literal model doubles with every
layer; but each row is an interval of the data's range, and most intervals follow a two-term recursion, so that the
exact Gram matrix at any depth costs little.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np

from splinescope_research import tree_representation
from splinescope_research.pictures import plot_tree

x = np.sort(np.random.default_rng(2).standard_normal(8))
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
plot_tree(x, 3, ax)

# %%
# The inner points collapse onto one direction, the extremes stay apart at a right angle.
tree = tree_representation(x, 1)
depths, inner, outer = [], [], []
for _ in range(60):
    angles = tree.angles()
    depths.append(tree.depth)
    inner.append(angles[1, -2])
    outer.append(angles[0, -1])
    tree = tree.advance(3)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.semilogy(depths, inner, label="between the second and the last but one")
ax.semilogy(depths, outer, label="between smallest and largest")
ax.set_xlabel("layer")
ax.set_ylabel("angle (degrees)")
ax.legend(frameon=False)

deep = tree_representation(x, 10_000)
ratio = deep.norms()[1:-1].max() / deep.norms().max()
print(f"after 10,000 layers: inner length / largest length {ratio:.4f}, between {1 / 7:.4f} and {(2 / 50) ** 0.5:.4f}")
