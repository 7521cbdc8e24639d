"""
Batch norm early, none late
===========================

A network is trained with batch norm, which is merged into the layers at step 300 while training goes on. Just then the
function does not change; after it, nothing pulls the folds to the batch any more.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons
from torch import nn

import splinescope as ss
from splinescope_research import MergeAway, merge_batchnorm_

points, classes = make_moons(200, noise=0.15, random_state=0)
x, y = torch.from_numpy(points).float(), torch.from_numpy(classes)


def train(merge_at):
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()),
        nn.Linear(32, 2),
    )
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    monitor = ss.ComplexityMonitor(net, x, radius=0.1, schedule=ss.train.LogSpaced(8), budget=None)
    schedule = None if merge_at is None else MergeAway(net, optimizer, at=merge_at, statistics=x)
    for step in range(2001):
        if schedule is not None:
            schedule.step(step)
        monitor.step(step)
        loss = nn.functional.mse_loss(net(x), nn.functional.one_hot(y, 2).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return monitor.records


# %%
# Local complexity at the training points: how many folds pass within 0.1 of them.
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, merge_at, color in (("batch norm", None, "#009e73"), ("merged away at 300", 300, "#0072b2")):
    records = [r for r in train(merge_at) if r["step"] >= (merge_at or 0)]  # until then the two are one
    ax.plot([max(r["step"], 0.5) for r in records], [r["points"] for r in records], color=color, label=name)
ax.axvline(300, color="0.6", lw=1, ls=":")
ax.set(xscale="log", xlabel="training step (0 drawn at 0.5)", ylabel="folds near a training point", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %%
# The change alone, in a loop that decides for itself: the same outputs, no batch norm, and an optimizer that knows.
net = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
net(x)  # running averages
before = net.eval()(x)
merge_batchnorm_(net, optimizer=optimizer, x=x)
print(net, f"outputs differ by {(net(x) - before).abs().max().item():.0e}", sep="\n")
