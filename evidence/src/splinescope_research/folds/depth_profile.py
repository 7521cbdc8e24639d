"""Folds at the data, conditioning and curvature of every layer in one pass, and whether one tells another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata
from torch import Tensor, nn

from splinescope.complexity.local_complexity import local_complexity
from splinescope.complexity.neighborhoods import Radius
from splinescope.landscape.inputs import Model, check_data, check_model, fitting_inputs
from splinescope.landscape.skip_conditioning import singular_conditions
from splinescope.network.readable import unwrap
from splinescope.network.watching.intercept import Hooked
from splinescope.network.watching.undisturbed import copied
from splinescope.support.checks import as_float64_array
from splinescope.support.derivatives import differentiating
from splinescope.support.display import Result, table
from splinescope.support.errors import InputError
from splinescope.support.losses import check_targets, named_loss
from splinescope.support.progress import Progress, check_progress, telling

_LARGEST_GRAM = 4096  # points times outputs: the Gram matrix and its eigenvalues
_SAME = 1e-9  # what ranks leave after a fit that explains them all


@dataclass(frozen=True, eq=False, repr=False)
class DepthProfile(Result):
    """A network layer by layer.

    Attributes:
        layers: L paths of linear maps and convolutions, in the order of their calls.
        condition: `[L]` condition number of the map from the layer's output to the network's, median over the points;
            inf where most are singular.
        map_rank: `[L]` effective rank of that map, `(sum of squares)^2 / sum of fourth powers` of its singular values,
            median over the points: from 1, as badly conditioned as can be, to the number of outputs.
        largest: `[L]` largest eigenvalue of the Gauss-Newton matrix of the layer's parameters.
        effective_rank: `[L]` `(sum of its eigenvalues)^2 / sum of their squares`; 0 where it vanishes.
        sites: S names of the non-linearities.
        folds: `[S]` share of the site's units whose folds pass within `radius` of a point, mean over the points.
        radius: The radius.
        spectrum: Eigenvalues of the Gauss-Newton matrix of all these layers together, descending; the rest are zeros.

    Conditions and curvatures are exact; `folds` are counted by a frame, which misses some (see `local_complexity`).
    """

    layers: tuple[str, ...]
    condition: np.ndarray
    map_rank: np.ndarray
    largest: np.ndarray
    effective_rank: np.ndarray
    sites: tuple[str, ...]
    folds: np.ndarray
    radius: float
    spectrum: np.ndarray
    certainty = "bound"

    @property
    def spectral_rank(self) -> float:
        """Effective rank of `spectrum`: how many directions share the curvature of all layers; 0 where it vanishes."""
        return float(_effective_rank(torch.from_numpy(self.spectrum)))

    @property
    def assurance(self) -> str:
        return "Conditions and curvatures are exact, up to rounding; shares of folds are counts from below."

    def summary(self) -> str:
        """The layers as a table."""
        rows = [("layer", "median condition", "its effective rank", "largest eigenvalue", "effective rank")]
        for i, path in enumerate(self.layers):
            numbers = (self.condition[i], self.map_rank[i], self.largest[i], self.effective_rank[i])
            rows.append((path, *(f"{v:.4g}" for v in numbers)))  # type: ignore[arg-type]
        near = [("site", "units near a point"), *((s, f"{f:.2%}") for s, f in zip(self.sites, self.folds, strict=True))]
        top = float(self.spectrum[0]) if len(self.spectrum) else 0.0
        whole = f"All layers together: largest eigenvalue {top:.4g}, effective rank {self.spectral_rank:.4g}."
        return f"{table(rows)}\n{table(near)}\n{whole}\n{self.assurance}"


def depth_profile(
    model: Model, x: Any, y: Any, *, loss: str = "squared", radius: Radius = "auto",
    progress: Progress | bool | None = None,
) -> DepthProfile:  # fmt: skip
    r"""Fold density at the data, conditioning and curvature of every layer of a network.

    With $M_n$ the Jacobian of the outputs with respect to layer l's output at point n and $z_n$ its input, the
    Gauss-Newton matrix of the layer is $A_l^T A_l$ with one row of $A_l$ per point and output, $S_n M_n \otimes z_n$
    (and $S_n M_n$ for the bias; $S_n^T S_n$ the loss's own Hessian). The small matrices $A_l A_l^T$ have the same
    eigenvalues, and their sum those of all layers together.

    Args:
        model: In evaluation mode, with linear maps or 2-D convolutions (without groups), each called once.
        x: `[N, ...]` points.
        y: Targets, as for `curvature`.
        loss: "squared", "mse", "cross_entropy" or "bce".
        radius: As for `local_complexity`.
        progress: As in `tessellate`, of (share done, layer at hand).

    Returns:
        `DepthProfile`. Norms' own weights are not among the parameters.

    Cost: one forward and C backward passes of the N points for all layers (C outputs), and the eigenvalues of a matrix
    of side N C a layer; N C up to 4,096.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        >>> depth_profile(net, torch.randn(20, 2), torch.zeros(20, 3)).layers
        ('0', '2')
    """
    check_progress(progress)
    known = named_loss(loss, functions=False)
    assert known is not None
    module = check_model(model)
    inputs, targets = check_data(x, y, torch.float64)
    wide = copied(unwrap(module)).to("cpu", torch.float64)
    inputs, shape = fitting_inputs(wide, inputs.cpu(), torch.float64)
    check_targets(loss, shape, targets)
    if len(shape) != 1 or len(inputs) * shape[0] > _LARGEST_GRAM:
        raise InputError(f"model must return a row of C numbers per point, N C up to {_LARGEST_GRAM}, got N = "
                         f"{len(inputs)} and outputs of shape {shape}.")  # fmt: skip
    outputs, seen = _watched(wide, inputs)
    root = known.root(outputs.detach()) / len(inputs) ** 0.5
    made = [out for _, _, out in seen.values()]
    slopes: list[list[Tensor]] = [[] for _ in made]
    with differentiating("the model", lambda: wide(inputs)):
        for k in range(shape[0]):
            every = torch.autograd.grad(outputs[:, k].sum(), made, retain_graph=True, allow_unused=True)
            for rows, slope, out in zip(slopes, every, made, strict=True):
                rows.append(torch.zeros_like(out) if slope is None else slope)
    total = torch.zeros(len(inputs) * shape[0], len(inputs) * shape[0], dtype=torch.float64)
    found = []
    with telling(progress, "depth profile") as tell:
        for i, (rows, (path, (layer, given, _))) in enumerate(zip(slopes, seen.items(), strict=True)):
            tell(i / (len(seen) + 1), path)
            jacobians = torch.stack(rows, 1)  # [N, C, ...]
            singular = torch.linalg.svdvals(jacobians.flatten(2))
            conditions = singular_conditions(singular.numpy(), max(jacobians.flatten(2).shape[1:]))
            gram = _gram(layer, given, root.mT @ jacobians.flatten(2), jacobians.shape[2:])
            total += gram
            values = torch.linalg.eigvalsh(gram).clamp_min(0)
            of_map = float(_effective_rank(singular.square()).median())
            found.append((float(np.median(conditions)), of_map, float(values[-1]), float(_effective_rank(values))))
        tell(len(seen) / (len(seen) + 1), "local complexity")
    near = local_complexity(wide, inputs, radius=radius, progress=False)
    units = torch.tensor([site.units for site in near.sites]).double()
    conditions_of, ranks_of, largest, ranks = (np.array(column) for column in zip(*found, strict=True))
    return DepthProfile(
        tuple(seen), conditions_of, ranks_of, largest, ranks, tuple(near.names),
        (near.counts.double().mean(0) / units).numpy(), near.radius,
        torch.linalg.eigvalsh(total).clamp_min(0).flip(0).numpy(),
    )  # fmt: skip


def _watched(model: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, tuple[Any, Tensor, Tensor]]]:
    """The outputs and, by path in the order of calls, each layer with what came in and what went out."""
    seen: dict[str, tuple[Any, Tensor, Tensor]] = {}
    hooks = []
    for path, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            if isinstance(module, nn.Conv2d) and module.groups > 1:
                raise InputError(f"{path} must be a convolution without groups, got {module.groups}.")

            def hook(module: nn.Module, inputs: Any, output: Tensor, path: str = path) -> Tensor:
                if path in seen:
                    raise InputError(f"{path} must be called once, got a second call.")
                seen[path] = (module, inputs[0].detach(), output)
                return output.clone()  # what follows may be in place

            module.requires_grad_(True)
            hooks.append((module, hook))
    with Hooked(after=hooks):
        outputs = model(x.clone())
    if not seen:
        raise InputError("model must have linear maps or 2-D convolutions, found none.")
    return outputs, seen


def _effective_rank(values: Tensor) -> Tensor:
    """`(sum v)^2 / sum v^2` over the last axis; 0 where all vanish."""
    scaled = values / values.amax(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    return scaled.sum(-1).square() / scaled.square().sum(-1).clamp_min(torch.finfo(values.dtype).tiny)


def _gram(layer: Any, given: Tensor, slopes: Tensor, shape: torch.Size) -> Tensor:
    """`[N C, N C]` inner products of the rows of A: gradients of outputs at points by the layer's parameters."""
    n, outputs = slopes.shape[:2]
    if isinstance(layer, nn.Conv2d):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        padded = F.pad(given, layer._reversed_padding_repeated_twice, mode)
        seen = F.unfold(padded, layer.kernel_size, layer.dilation, 0, layer.stride)  # [N, in k, P]
        by_channel = slopes.reshape(n, outputs, shape[0], -1)  # [N, C, out, P]
        seen = seen.mT
        by_channel = by_channel.mT  # positions, then channels
    else:
        seen, by_channel = given.reshape(n, -1, given.shape[-1]), slopes.reshape(n, outputs, -1, shape[-1])
    if layer.bias is not None:
        seen = torch.cat([seen, torch.ones(*seen.shape[:2], 1, dtype=seen.dtype)], 2)
    if seen.shape[1] == 1:  # one position: a product of two small matrices, never the gradients themselves
        flat = by_channel[:, :, 0].flatten(0, 1)
        return (flat @ flat.mT) * (seen[:, 0] @ seen[:, 0].mT).repeat_interleave(outputs, 0).repeat_interleave(
            outputs, 1
        )
    rows = torch.einsum("ncpo,npi->ncoi", by_channel, seen).flatten(2).flatten(0, 1)
    return rows @ rows.mT


def partial_rank_correlation(a: Any, b: Any, given: Any) -> float:
    """Spearman's partial correlation of a and b `[n]`, with the influence of `given` removed from both.

    With r Spearman's correlations it is `(r_ab - r_ag r_bg) / sqrt((1 - r_ag^2) (1 - r_bg^2))`; 0 where `given`
    determines the ranks of a or of b. Exact for the numbers given.

    Example:
        >>> round(partial_rank_correlation([1, 3, 2, 4], [1, 4, 2, 3], [1, 2, 3, 4]), 3)
        0.873
    """
    columns = [as_float64_array(v, name) for name, v in (("a", a), ("b", b), ("given", given))]
    if any(c.ndim != 1 or len(c) != len(columns[0]) for c in columns) or len(columns[0]) < 3:
        raise InputError(f"a, b and given must be as many numbers, at least 3, got {[c.shape for c in columns]}.")
    first, second, base = (rankdata(c) - (len(c) + 1) / 2 for c in columns)
    left = [c - base * (c @ base) / max(float(base @ base), _SAME) for c in (first, second)]
    lengths = [float(np.linalg.norm(c)) for c in left]
    if min(lengths) <= _SAME * len(base):
        return 0.0
    return float(left[0] @ left[1] / (lengths[0] * lengths[1]))
