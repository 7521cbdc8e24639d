"""
The exact surface of a neural chair
===================================

A network learned the signed distance to a chair (from AnalyticMesh, Lei and Jia 2020; MIT license). Its zero set is a
polygon mesh, each face in one cell. Marching cubes sees the same network through a grid.

The network is not part of this repository: the script finds it below the folder that `SPLINESCOPE_TEST_DATA` names.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import splinescope as ss

folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data"))
network = ss.load(folder / "sdf_chair" / "chair.onnx")
mesh = ss.space.level_set(network, ([-0.35, 0.72, 0.15], [-0.12, 0.95, 0.45]))  # the top of a post of its back
print(mesh)

# %%
# On its faces the network is zero to rounding. The whole chair, `level_set(network, (-1.0, 1.0))`, takes 5 seconds and
# has 248,228 faces in one closed piece with one tunnel, below its back; the page on solids in the benchmarks shows it
# beside marching cubes.
values = network.program().forward(torch.from_numpy(mesh.vertices))
print(f"largest |f| at {len(mesh.vertices):,} vertices: {values.abs().max():.1e}")
ax = mesh.plot(axes="zxy", elevation=20, azimuth=-60)
ax.set_title(f"{len(mesh):,} faces")
plt.show()

# %%
# Near the surface the network is a tiling like any other: the signed distance on the plane that cuts the chair in two,
# with the outline in red.
plane = ss.tessellate(network, ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1.0, 1.0))
plane.plot(color="value", boundary=True)
plt.show()
