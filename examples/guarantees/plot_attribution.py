"""
What made it a three: exact integrated gradients
================================================

Integrated gradients share the difference of a score between a blank image and a digit among its pixels. Elsewhere the
integral is a sum over steps, and the shares miss the difference. Here it is exact: one gradient per tile on the line.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss

x, y = ss.data.digits()
torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
for _ in range(300):
    rows = torch.randint(1500, (100,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
    optimizer.step()
net.eval()

# %%
# The shares of four digits add up to the difference of the scores, to rounding.
digits = torch.stack([x[1500:][y[1500:] == c][0] for c in (3, 5, 8, 9)])
found = ss.integrated_gradients(net, digits, baseline=0.0, target=[3, 5, 8, 9])
print(f"largest gap: {float(abs(found.gaps).max()):.1e}")

# %%
fig, axes = plt.subplots(2, 4, figsize=(9, 4.8))
largest = float(found.attributions.abs().max())
for i, (top, below) in enumerate(axes.T):
    top.imshow(digits[i, 0].numpy(), cmap="gray_r")
    shown = below.imshow(found.attributions[i, 0].numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    top.set_title(f"score of {(3, 5, 8, 9)[i]}")
    top.axis("off")
    below.axis("off")
fig.colorbar(shown, ax=axes, label="share of the pixel in the score", shrink=0.8)
plt.show()
