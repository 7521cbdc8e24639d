"""The initialization that gives every data point a unit of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from splinescope.support.checks import as_float64_array
from splinescope.support.errors import InputError


@torch.no_grad()
def one_unit_per_point_(linear: nn.Linear, x: Tensor, *, center: bool = True, fraction: float = 1.0) -> Tensor:
    r"""Set a linear layer so that, after ReLU, unit `i` answers to data point `i` alone, with value 1.

    With `d_i` the centered points and `r_ij` the response of direction `i` to point `j`,

    $$ h_i(x) = \mathrm{relu}\left(\frac{\langle d_i, x - \bar x\rangle / \|d_i\|^2 - \theta_i}{1 - \theta_i}\right),
       \qquad r_{ij} = \frac{\langle d_i, d_j \rangle}{\|d_i\|^2}, \qquad
       \theta_i = f \max_{j \ne i} r_{ij} + (1 - f) $$

    so that `h_i(x_j)` is 1 for `j = i` and 0 otherwise: the representation of the points is exactly the
    identity and its rank is their number. This needs every point to be the furthest one in its own direction,
    which is sure when the centered points have equal lengths and different directions.

    Args:
        linear: Layer with `in_features = D`, `out_features = N` and a bias; changed in place.
        x: `[N, D]`.
        center: Subtract the mean of the points; False if they are centered and scaled already.
        fraction: `f` in (0, 1]; 1 puts the threshold at the nearest neighbor, less narrows each unit's cap.

    Returns:
        `[N]` thresholds `theta`.

    Cost: one `N x N` matrix of responses.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> x = torch.tensor([[0.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
        >>> theta = one_unit_per_point_(layer, x)
        >>> torch.relu(layer(x)).round(decimals=5).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Reference: the closing discussion of "Batch Normalization Decomposed", made an exact construction.
    """
    if not isinstance(linear, nn.Linear):
        raise InputError(f"linear must be a torch.nn.Linear, got {type(linear).__name__}.")
    x = torch.from_numpy(as_float64_array(x, "x"))
    if x.ndim != 2 or tuple(linear.weight.shape) != tuple(x.shape):
        raise InputError(
            f"x must have shape (out_features, in_features) = {tuple(linear.weight.shape)}, got {tuple(x.shape)}."
        )
    if linear.bias is None:
        raise InputError("linear must have a bias (it carries the thresholds), got bias=False.")
    if not 0 < fraction <= 1:
        raise InputError(f"fraction must lie in (0, 1], got {fraction}.")
    origin = x.mean(dim=0) if center else torch.zeros_like(x[0])
    offsets = x - origin
    squares = offsets.square().sum(dim=1)
    if (squares == 0).any():
        raise InputError(f"x must differ from their mean, point {int(squares.argmin())} does not.")
    response = offsets @ offsets.T / squares[:, None]
    response.fill_diagonal_(-torch.inf)
    nearest = response.max(dim=1).values if len(x) > 1 else torch.zeros(1, dtype=x.dtype)
    if (nearest > 1 - 1e-12).any():
        raise InputError(
            f"each point must be the furthest in its own direction, point {int(nearest.argmax())} is not; "
            "scale the centered points to one length (and pass center=False) or drop repeated directions."
        )
    theta = fraction * nearest + (1 - fraction)
    gain = 1 / (1 - theta)
    weight = offsets * (gain / squares)[:, None]
    linear.weight.copy_(weight)
    linear.bias.copy_(-(weight @ origin) - gain * theta)
    return theta.to(linear.weight.dtype)
