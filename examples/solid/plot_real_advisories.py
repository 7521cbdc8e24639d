"""
Where a collision-avoidance network gives which advice
======================================================

HorizontalCAS (Julian and Kochenderfer, 2019; MIT license) turns the place of another aircraft (x ahead, y to the left,
in feet) and its heading ψ into one of five advisories. Its input space has three dimensions, so nothing has to be left
out: these are all of its cells, and the exact region of every advisory with its volume and its shape.

The network is not part of this repository: the script finds it below the folder that `SPLINESCOPE_TEST_DATA` names.
It needs the second distribution, too: `pip install splinescope-evidence`.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import splinescope as ss
from splinescope.plot.solid import plot_mesh
from splinescope_research import topology

ADVISORIES = ("clear of conflict", "weak left", "weak right", "strong left", "strong right")
folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data"))
network = ss.load(folder / "horizontalcas" / "HCAS_rect_v6_pra0_tau00_25HU_3000.nnet")
far = np.array([56_000.0, 56_000.0, np.pi])
tiling = ss.tessellate(network, ss.Slice.axes(np.zeros(3), (0, 1, 2), -far, far))
print(tiling)

# %%
# Every region is a union of pieces of cells. Volumes and Betti numbers are exact: how many separate parts, how many
# tunnels, how many hollows. An advisory with many parts has islands inside another one.
found = topology(tiling)
shares = found.sizes / tiling.view.size
for name, share, (parts, holes, voids) in zip(ADVISORIES, shares, found.betti, strict=True):
    print(f"{name:18s} {share:8.3%} of the box, {parts} parts, {holes} tunnels, {voids} hollows")

# %%
# The boundaries of the four regions in which the aircraft should turn; up is the heading of the other one.
boundary = tiling.decision_boundary()
figure = plt.figure(figsize=(10, 9), layout="constrained")
colors = ("#cc6677", "#ddcc77", "#117733", "#332288")
for c, color in enumerate(colors, 1):
    mesh = boundary.around(c)
    ax = plot_mesh((mesh.vertices / far, mesh.triangles[0]), figure.add_subplot(2, 2, c, projection="3d"), color=color)
    ax.set(xlabel="x / 56,000 ft", ylabel="y / 56,000 ft", zlabel="ψ / π", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    ax.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), zticks=(-1, 0, 1))
    ax.set_box_aspect((1, 1, 1))
    ax.set_title(f"{ADVISORIES[c]}: {shares[c]:.2%}, {found.betti[c][0]} parts")
plt.show()

# %%
# And one heading: what a plane cuts out of the cells are the tiles on it.
heading = ss.Slice.axes([0.0, 0.0, -np.pi / 2], (0, 1), -far[:2], far[:2])
one = ss.tessellate(network, heading)
ax = one.plot(color="class", boundary=True, anchors=False)
ax.set_title(f"ψ = -90°: {one.count:,} tiles")
plt.show()
