"""
Watch the folds while a network learns
======================================

Local complexity counts the folds that pass near a point. A monitor in the training loop records it at log-spaced steps;
a timeline tiles one slice at each of its snapshots.
"""

import tempfile

import torch
from torch import nn

import splinescope as ss
from splinescope.plot.timeline import plot_timeline
from splinescope.train import LogSpaced

# %%
# Points in the plane, two classes on rings, and a small network.

generator = torch.Generator().manual_seed(0)
x = torch.rand(400, 2, generator=generator) * 4 - 2
y = ((x.norm(dim=1) > 0.8) & (x.norm(dim=1) < 1.5)).long()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

# %%
# The loop, with the monitor told where training is. It writes JSON lines and snapshots of the parameters.

folder = tempfile.TemporaryDirectory()
monitor = ss.ComplexityMonitor(
    model, {"train": x[:100]}, radius=0.1, schedule=LogSpaced(3), out=folder.name, snapshots=True, budget=None
)
optimizer = torch.optim.Adam(model.parameters(), 0.005)
for step in range(1001):
    monitor.step(step)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(f"measuring took {monitor.overhead:.1%} of the time")
print(f"training accuracy {(model(x).argmax(1) == y).double().mean():.3f}")

# %%
# One slice at every snapshot: tiles, decision boundary, local complexity.

view = ss.Slice.through(x[0], x[1], x[2], pad=0.3)  # tiles and slopes are measured at these three points
story = ss.complexity.timeline(model, f"{folder.name}/snapshots", view, x={"train": x[:100]}, radius=0.1)
figure = plot_timeline(story)
folder.cleanup()
