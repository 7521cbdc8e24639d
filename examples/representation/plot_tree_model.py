"""
The tree model, ten thousand layers deep
========================================

In the tree model a row becomes two, its part above the mean and its part below. The literal model doubles with every
layer; but each row is an interval of the data's range, and most intervals follow a two-term recursion, so that the
exact Gram matrix at any depth costs little.
"""

import matplotlib.pyplot as plt
import numpy as np

from splinescope.plot.representation import plot_tree
from splinescope.representation import tree_representation

x = np.sort(np.random.default_rng(2).standard_normal(8))
figure, (tree_axes, angle_axes) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
plot_tree(x, 3, tree_axes)

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
angle_axes.semilogy(depths, inner, label="between the second and the last but one")
angle_axes.semilogy(depths, outer, label="between smallest and largest")
angle_axes.set_xlabel("layer")
angle_axes.set_ylabel("angle (degrees)")
angle_axes.legend(frameon=False)

deep = tree_representation(x, 10_000)
ratio = deep.norms()[1:-1].max() / deep.norms().max()
print(f"after 10,000 layers: inner length / largest length {ratio:.4f}, between {1 / 7:.4f} and {(2 / 50) ** 0.5:.4f}")
