"""
Descent by pieces
=================

With the other layers held, the squared error is a quadratic of one layer's parameters in each piece. Layer after
layer, `LayerwiseDescent` goes to the minimum of that quadratic, or rather to the exact minimum over all pieces on the
line that leads there. Below, the first line it searches in the first layer: the piece where it starts knows little of
what comes.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from splinescope_research import LayerwiseDescent, loss_section
from splinescope_research.loss.break_distance import break_distance

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).double().eval()
x = torch.linspace(-3, 3, 60, dtype=torch.float64)[:, None]
y = torch.sin(2 * x)

# %%
# How far may the first layer move before any unit changes sign at any data point? Not far.
print(break_distance(net, x, "0"))

# %%
# One step in the first layer alone, and the line along which it went.
before = {name: p.detach().clone() for name, p in net.named_parameters()}
LayerwiseDescent(net, layers=["0"], products=10).step(x, y)
way = {name: p.detach() - before[name] for name, p in net.named_parameters() if name.startswith("0.")}
net.load_state_dict(before)
line = loss_section(net, x, y, way, span=(0.0, 25.0), progress=False)
first = line.on_piece(np.zeros(200, dtype=int), np.linspace(0, 25, 200)[:, None])

# %%
# Then whole sweeps: the loss never rises.
optimizer = LayerwiseDescent(net, products=20)
losses = [optimizer.step(x, y) for _ in range(30)]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
t = np.linspace(0, 25, 800)
left.plot(t, line(t), color="#0072b2", label=f"the loss, {line.count} pieces")
left.plot(np.linspace(0, 25, 200), first, "--", color="#d55e00", label="the quadratic of the first piece")
left.plot(*line.minimum[1], line.minimum[0], "o", color="#e00000", label="exact minimum")
left.set(xlabel="t along the direction in layer 0", ylabel="mean squared error", ylim=(0, 1.2 * line(t).max()))
left.legend(frameon=False)
right.semilogy(range(1, 31), losses, "o-", color="#0072b2", ms=3)
right.set(xlabel="sweeps over the layers", ylabel="mean squared error")
plt.show()
