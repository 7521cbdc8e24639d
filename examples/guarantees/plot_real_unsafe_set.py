"""
An unsafe set of ACAS Xu
========================

Property 2 of the collision-avoidance networks says that far away from a slow intruder "clear of conflict" is never the
worst score. Network 2_2 violates it. On a plane of its five inputs the unsafe set is a thin ribbon of exact polygons,
1.5% of the plane: more than a yes or no tells.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import splinescope as ss
from splinescope.guarantees import read_vnnlib

folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data")) / "vnnlib" / "acasxu"
network = ss.load(folder / "ACASXU_run2a_2_2_batch_2000.onnx")
asked = read_vnnlib(folder / "prop_2.vnnlib")
verdict = ss.verify(network, asked)
print(verdict.summary())

# %%
# The plane through the witness along the intruder's angle and heading, within the property's box.
low, high, _ = asked.clauses[0].box()
view = ss.Slice.axes(verdict.witness.x, (1, 2), low[[1, 2]], high[[1, 2]])
unsafe = ss.verify(network, asked, view, complete=True).unsafe
print(unsafe)

# %%
corners = np.concatenate(unsafe.polytopes)
fig, ax = plt.subplots(figsize=(8, 5))
unsafe.plot(ax, color="#d95f02")
ax.plot(*verdict.witness.x.reshape(-1)[[1, 2]], "*", color="white", mec="black", ms=14, label="witness")
ax.set(
    xlim=(corners[:, 0].min() - 0.01, corners[:, 0].max() + 0.01),
    ylim=(low[2], high[2]),
    xlabel="angle to the intruder, normalized",
    ylabel="heading, normalized",
    aspect="auto",
)
ax.set_title(f"unsafe: {100 * unsafe.share:.2f}% of the plane, {len(unsafe):,} exact polygons")
ax.legend(loc="lower right")
fig.tight_layout()
plt.show()
