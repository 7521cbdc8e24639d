"""
The squared error in its exact pieces
=====================================

Along a line in one layer's parameters the squared error is a piecewise quadratic; in a plane its pieces are polygons.
Break points, coefficients and the minimum on every piece are exact.

It needs the second distribution: `pip install splinescope-evidence`.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import splinescope as ss
from splinescope_research import loss_section, polynomial_section

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
x = torch.linspace(-2, 2, 8)[:, None]
y = torch.sin(2 * x)
directions = ss.landscape.random_directions(net, 2, layer="2", generator=torch.Generator().manual_seed(1))

# %%
# A line and a plane through the second layer's weights. The red point is the exact minimum.
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6), layout="constrained")
line = loss_section(net, x, y, directions[0], span=6.0)
line.plot(left)
plane = loss_section(net, x, y, directions, span=6.0)
plane.plot(right, color="curvature")
plt.show()

# %%
# When all layers move together the pieces are polynomials of degree 6.
everything = ss.landscape.random_directions(net, 1, generator=torch.Generator().manual_seed(2))[0]
print(polynomial_section(net, x, y, everything))
