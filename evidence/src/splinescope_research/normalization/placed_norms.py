"""Batch norms that place their folds by another criterion than least squares.

Batch norm subtracts the mean: of all offsets, the one of least total squared distance of the batch to the unit's fold.
Here the offset is that of another wish: least absolute distance, given quantiles, the widest gap between class means,
the points next to the decision boundary. The scale stays batch norm's, so that only the place of the fold differs. In
evaluation mode such a layer is a batch norm whose running mean is the place: plain affine, to be traced, exported,
merged away and loaded as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from splinescope.network.readable import floating_like, unwrap
from splinescope.network.watching.undisturbed import copied
from splinescope.support.checks import as_rows, check_choice, check_whole
from splinescope.support.errors import InputError

Criterion = Literal["mean", "median", "quantile", "gap", "weighted"]
CRITERIA: tuple[str, ...] = ("mean", "median", "quantile", "gap", "weighted")
"""Where a fold may be placed; see `PlacedNorm1d`."""
_LEVELS = (0.1, 0.9)  # quantiles of the first and the last channel


class _Placed(nn.modules.batchnorm._BatchNorm):
    """What the two classes share; the docstring is that of `PlacedNorm1d`."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        criterion: Criterion = "median",
    ) -> None:
        check_whole(num_features, "num_features")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.criterion = check_choice(criterion, "criterion", CRITERIA)
        self.labels: Tensor | None = None
        self.weights: Tensor | None = None
        self.frozen = False

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, criterion={self.criterion!r}{', frozen' if self.frozen else ''}"

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if not torch.jit.is_tracing() and input.shape[1] != self.num_features:  # traced, the numbers are not there
            raise InputError(
                f"input must have {self.num_features} channels (num_features) in its second dimension, got "
                f"{input.shape[1]}: shape {tuple(input.shape)}."
            )
        if self.running_mean is None and self.frozen:
            raise InputError("a frozen norm needs running statistics, got track_running_stats=False.")
        if self.frozen or (
            not self.training and self.running_mean is not None
        ):  # else by the batch, as batch norm does
            return nn.functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        z = input.movedim(1, -1).reshape(-1, self.num_features)
        z = z.to(torch.promote_types(z.dtype, torch.float32))  # quantiles and sums of halves
        for name, given in (("y", self.labels), ("weights", self.weights)):
            if given is not None and given.shape != input.shape[:1]:
                raise InputError(
                    f"{name} must have one entry per row of the batch, shape ({len(input)},), got {tuple(given.shape)}."
                )
        if len(z) < 2:
            raise InputError(f"a norm in training needs at least 2 values per channel, got {len(z)}.")
        center, variance = self.centers(z), z.var(0, correction=0)
        self._remember(center.detach(), variance.detach() * len(z) / (len(z) - 1))
        scale = (variance + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight
        shape = (-1,) + (1,) * (input.dim() - 2)
        output = (input - center.reshape(shape)) * scale.reshape(shape)
        output = output if self.bias is None else output + self.bias.reshape(shape)
        return output.to(input.dtype)

    def centers(self, z: Tensor) -> Tensor:
        """`[C]` where the folds go, for values `[n, C]` of the channels; the positions of a point follow each other."""
        if self.criterion == "median":
            return z.quantile(0.5, dim=0)
        if self.criterion == "quantile":
            order = z.sort(0).values
            place = torch.linspace(*_LEVELS, self.num_features, dtype=z.dtype, device=z.device) * (len(z) - 1)
            below = place.floor().long().clamp(max=len(z) - 2)
            channel = torch.arange(self.num_features, device=z.device)
            share = place - below
            return (1 - share) * order[below, channel] + share * order[below + 1, channel]
        if self.criterion == "gap":
            return _widest_gap(z, self._per_value(self.labels, z, "y"))
        if self.criterion == "weighted":
            weights = self._per_value(self.weights, z, "weights").to(z)
            total = weights.sum()
            if not (bool((weights >= 0).all()) and bool(total > 0)):
                raise InputError("weights must be non-negative numbers of positive sum.")
            return (weights[:, None] * z).sum(0) / total
        return z.mean(0)

    def _per_value(self, given: Tensor | None, z: Tensor, name: str) -> Tensor:
        """One entry per value of a channel: a point's positions share its own."""
        if given is None:
            raise InputError(
                f"criterion {self.criterion!r} needs {name}: train inside `with placing(model, {name}=...)`."
            )
        return given.to(z.device).repeat_interleave(len(z) // len(given))

    @torch.no_grad()
    def _remember(self, center: Tensor, variance: Tensor) -> None:
        """Running averages as batch norm keeps them."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(center.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)


def _widest_gap(z: Tensor, labels: Tensor) -> Tensor:
    """`[C]` per channel, the middle of the widest gap between neighboring class means; the mean for one class."""
    classes, member = labels.unique(return_inverse=True)
    if len(classes) < 2:
        return z.mean(0)
    counts = torch.bincount(member, minlength=len(classes)).to(z)
    means = torch.zeros(len(classes), z.shape[1], dtype=z.dtype, device=z.device).index_add(0, member, z)
    means = (means / counts[:, None]).sort(0).values
    widest = means.diff(dim=0).argmax(0, keepdim=True)
    return 0.5 * (means.gather(0, widest) + means.gather(0, widest + 1))[0]


class PlacedNorm1d(_Placed, nn.BatchNorm1d):
    """Drop-in for `nn.BatchNorm1d` that places each unit's fold by a criterion of its own.

    In training, `y = gamma (z - c) / sqrt(v + eps) + beta` with v the batch's variance and c, by `criterion`:

    * "mean": the batch's mean, least squared distance to the fold; batch norm itself.
    * "median": least absolute distance; outliers do not pull.
    * "quantile": channel k's fold at a quantile of its own, evenly from 0.1 to 0.9 over the channels:
      the folds spread over the data instead of all passing its middle.
    * "gap": the middle of the widest gap between neighboring class means. Needs labels.
    * "weighted": the mean by weights, such as `boundary_weights`, which are large next to the decision boundary.

    Running averages, `momentum`, `state_dict` and evaluation mode are batch norm's: there it is plain affine. `frozen`
    makes it so in training too, with the statistics it has (see `with_statistics` for those of a whole set).

    Example:
        >>> norm = PlacedNorm1d(3, criterion="median")
        >>> out = norm(torch.randn(101, 3))
        >>> bool((out.median(0).values.abs() < 1e-6).all())
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks for normalizations that
    replace the total least squares of batch norm.
    """


class PlacedNorm2d(_Placed, nn.BatchNorm2d):
    """Drop-in for `nn.BatchNorm2d`: a channel's positions are its values; see `PlacedNorm1d`."""


def with_placed_norms(model: nn.Module, criterion: Criterion) -> nn.Module:
    """A copy of a model whose batch norms (1-D and 2-D) place their folds by a criterion.

    Weights, state, mode and what requires gradients are kept. Subclasses that inherit batch norm's forward and state
    are exchanged too; other batch norms (3-D, synchronized, with a forward of their own) are refused by name.

    Args:
        model: With `nn.BatchNorm1d` or `nn.BatchNorm2d` modules; left as found.
        criterion: See `PlacedNorm1d`.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        >>> with_placed_norms(net, "median")[1].criterion
        'median'
    """
    unwrap(model)  # refuses what is no module
    made = copied(model)
    found = {
        path: norm
        for path, norm in made.named_modules(remove_duplicate=False)
        if isinstance(norm, nn.modules.batchnorm._BatchNorm)
    }
    if not found:
        raise InputError("model must have nn.BatchNorm1d or nn.BatchNorm2d modules, found none.")
    for path, norm in found.items():
        if not _replaceable(norm):
            raise InputError(
                f"the batch norms of model must be nn.BatchNorm1d, nn.BatchNorm2d or subclasses that compute and hold "
                f"the same, got {path or 'the model'}, a {type(norm).__name__}: exchange it for one of them first."
            )
    placed = {id(norm): _placed_like(norm, criterion) for norm in found.values()}  # one for each, if shared
    for path, norm in found.items():
        if path == "":
            return placed[id(norm)]
        parent, _, name = path.rpartition(".")
        setattr(made.get_submodule(parent), name, placed[id(norm)])
    return made


def _replaceable(norm: nn.modules.batchnorm._BatchNorm) -> bool:
    """Whether it computes what nn.BatchNorm1d or nn.BatchNorm2d (or a placed one) does, from the same state."""
    known = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    return (
        isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        and type(norm).forward in (nn.modules.batchnorm._BatchNorm.forward, _Placed.forward)
        and norm.state_dict().keys() <= known
    )


def _placed_like(norm: nn.modules.batchnorm._BatchNorm, criterion: Criterion) -> _Placed:
    """A placed norm with another's settings, state, mode, and what of it trains."""
    kind = PlacedNorm1d if isinstance(norm, nn.BatchNorm1d) else PlacedNorm2d
    placed = kind(
        norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats, criterion=criterion
    )
    like = floating_like(norm, torch.zeros(0))
    placed.to(like).train(norm.training)
    placed.load_state_dict(norm.state_dict())
    for name, parameter in norm.named_parameters():
        placed.get_parameter(name).requires_grad_(parameter.requires_grad)
    return placed


@contextmanager
def placing(model: nn.Module, *, y: Tensor | None = None, weights: Tensor | None = None) -> Iterator[None]:
    """What the norms of a model know of the batch while the context lasts: a label and a weight per row.

    Args:
        model: With placed norms.
        y: `[N]` classes of the rows that go through the model, for "gap".
        weights: `[N]` non-negative numbers, for "weighted".

    Example:
        >>> net = with_placed_norms(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU()), "gap")
        >>> with placing(net, y=torch.tensor([0, 0, 1, 1])):
        ...     out = net(torch.randn(4, 2))
    """
    norms = [norm for norm in unwrap(model).modules() if isinstance(norm, _Placed)]
    if not norms:
        raise InputError("model must have placed norms (see with_placed_norms), found none.")
    kept = [(norm.labels, norm.weights) for norm in norms]
    given = [None if entry is None else as_rows(entry, name) for name, entry in (("y", y), ("weights", weights))]
    try:
        for norm in norms:
            norm.labels, norm.weights = given
        yield
    finally:
        for norm, (old_labels, old_weights) in zip(norms, kept, strict=True):
            norm.labels, norm.weights = old_labels, old_weights


@torch.no_grad()
def boundary_weights(outputs: Tensor) -> Tensor:
    """`[N]` weights `exp(-gap / median gap)` by the gap of a classifier's two largest outputs `[N, classes]`.

    1 on the decision boundary: within a tile the gap of logits is proportional to the distance.
    """
    outputs = as_rows(outputs, "outputs")
    if outputs.dim() != 2 or outputs.shape[1] < 2 or not len(outputs):
        raise InputError(f"outputs must have shape (N, classes) with at least 2 classes, got {tuple(outputs.shape)}.")
    outputs = outputs.to(torch.promote_types(outputs.dtype, torch.get_default_dtype()))  # counts too
    if not bool(outputs.isfinite().all()):
        raise InputError("outputs must be finite, got NaN or infinite values.")
    first, second = outputs.topk(2, dim=1).values.unbind(1)
    gap = first - second
    return torch.exp(-gap / gap.median().clamp_min(torch.finfo(gap.dtype).tiny))
