"""`local_map`: the affine map that a network applies at a point, transformers included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..network.outputs import one_tensor
from ..network.readable import check_mode, check_statistics, floating_like, unwrap
from ..network.watching.calls import module_paths
from ..network.watching.undisturbed import as_written
from ..support.checks import as_float64_array, as_rows, check_generator, check_whole, running_on
from ..support.display import table
from ..support.errors import InputError, UnsupportedModelError
from ..support.progress import Progress, check_progress, telling
from .capture import Forward, PartCall, capture, main_tensor, part_paths, plain_call
from .held import FACTOR, Holding, Record, kind_of, mark_live, origin_of
from .map_results import MapPart, Validity


def local_map(
    model: nn.Module, x: Any, *, forward: Forward | None = None, layers: Sequence[str] | None = None
) -> LocalMap:
    """The affine map A_x x + c_x that a network applies at x.

    What is not affine is held at the values it has at x: attention weights, the scales of norms (centering stays),
    winners of max-pools, and activations as x times a gate, `phi(x) = phi(0) + g(x) x`, or by their slope where they
    are piecewise affine. Of a product of two values the one that came out of an activation is held. So
    `f(x) = A_x x + c_x` **exactly** at x (up to rounding; measured in `gap`). For piecewise-affine networks it is the
    map of x's tile; for others an estimate away from x (see `validity`), and not the Jacobian, which also
    differentiates what is held.

    Args:
        model: A torch module in eval mode; left as it is. It runs in its own dtype.
        x: The point, as the model takes it, batch axis included (with several rows, A acts on all of them at once).
        forward: How to call the model, `(model, x) -> output`; needed where the input is not what is continuous, e.g.
            `lambda m, e: m(inputs_embeds=e, use_cache=False)`. Of several tensors in its result one is chosen by
            `pick_output`, or here.
        layers: Paths of the layers for `LocalMap.layer`; the entries of the model's module lists if None.

    Nothing is written down as a matrix unless asked. A product or function of the input that has no factor to hold is
    refused; all of them are named.

    Cost: three forward passes; each product with A or its transpose about two more.

    Example:
        >>> import torch, splinescope as ss
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        >>> at = ss.local_map(layer, torch.randn(1, 5, 8))
        >>> at.shape, bool(at.gap < 1e-5)
        ((40, 40), True)

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5); for language
    models: Golden, "Large Language Models are Locally Linear Mappings".
    """
    model = unwrap(model)
    check_mode(model)
    check_statistics(model)
    point = _as_point(model, x)
    call = forward or plain_call
    return LocalMap(model, point, lambda u: call(model, u), "", tuple(layers or part_paths(model)))


class LocalMap(MapPart):
    """The affine map of a network (or of one of its layers) at a point; made by `local_map`.

    Attributes:
        path: Which layer; "" for the whole network.
        point: x.
        value: f(x).
        constant: c_x, in the shape of f(x): the held network at 0.
        shape: (numbers in f(x), numbers in x).
        gap: `||A x + c - f(x)|| / ||f(x)||`, measured: rounding.
    """

    certainty = "exact"  # at the point; `validity` tells how far

    def __init__(
        self, model: nn.Module, point: Tensor, function: Callable[[Tensor], Any], path: str, layers: tuple[str, ...]
    ) -> None:
        self.path, self.point, self._model, self._function, self._layers = path, point, model, function, layers
        with torch.no_grad():
            with running_on(point):
                self.value = self.evaluate(point)
            self._record = self._run(point, None)[1]
        self._zero = torch.zeros_like(point).requires_grad_()
        with torch.enable_grad():
            output, _ = self._run(self._zero, self._record)
        if not output.requires_grad:
            raise UnsupportedModelError(
                "No gradient reaches the model's input from its output: it runs without gradients (no_grad inside), or "
                "the output does not depend on the input."
            )
        self._output = output
        self.constant = output.detach()
        super().__init__(self)
        at = self.apply(point) + self.constant
        size = self.value.double().norm().clamp_min(torch.finfo(torch.float64).tiny)
        self.gap = float((at - self.value).double().norm() / size)
        limit = torch.finfo(point.dtype).eps ** 0.6
        if not self.gap <= limit:
            raise UnsupportedModelError(
                f"The model with its factors held is not affine: A x + c misses f(x) by {self.gap:.1e} of its size "
                f"(at most {limit:.0e} is rounding). It may be random, or use a function that hides from torch."
            )

    def __repr__(self) -> str:
        name = f"{self.path!r}, " if self.path else ""
        shapes = f"{tuple(self.point.shape)} -> {tuple(self.value.shape)}"
        return f"LocalMap({name}{shapes}, gap={self.gap:.1e}, exact at its point)"

    def summary(self) -> str:
        """The map in words."""
        rows = [
            ("layer", self.path or "the whole network"),
            ("from, to", f"{tuple(self.point.shape)}, {tuple(self.value.shape)}"),
            ("||A x||, ||c||", f"{float(self.apply(self.point).norm()):.4g}, {float(self.constant.norm()):.4g}"),
            ("held factors", str(len(self._record))),
            ("gap", f"{self.gap:.1e}"),
        ]
        return f"{table(rows)}\nExact at its point, up to rounding; an estimate elsewhere (see validity)."

    def __call__(self, u: Tensor) -> Tensor:
        """A u + c: the held network on an input of x's shape."""
        with torch.no_grad():
            return self._run(self._like(u), self._record)[0]

    def evaluate(self, u: Tensor) -> Tensor:
        """f(u): the real network (or layer), nothing held."""
        with as_written(self._model), torch.no_grad():
            return self._tensor(self._function(self._like(u))).detach()

    def apply(self, v: Tensor) -> Tensor:
        """A v, for v of x's shape."""
        return self.forward(self._like(v).unsqueeze(0))[0]

    def part(self, output: Any = (), input: Any = ()) -> MapPart:
        """The block of A from some entries of x to some of f(x): indices into their shapes.

        `part(output=(0, 7), input=(0, 3))` of a sequence model `[1, T, D]` is how token 3 enters the output of token 7.
        """
        return MapPart(self, output, input)

    @cached_property
    def _calls(self) -> dict[str, PartCall]:
        """The calls of the layers at x, those that ran exactly once."""
        _, calls = capture(self._model, self.point, self._layers, lambda _, u: self._function(u))
        return {path: found[0] for path, found in calls.items() if len(found) == 1}

    @property
    def layers(self) -> tuple[str, ...]:
        """Paths of the layers that `layer` takes."""
        return tuple(self._calls)

    def layer(self, path: str) -> LocalMap:
        """The map of one layer at what enters it, from its main input to its main output."""
        if path not in self._calls:
            raise InputError(f"path must be one of {', '.join(self._calls) or '(none)'}, got {path!r}.")
        call = self._calls[path]
        return LocalMap(self._model, call.x.detach().clone(), _fresh(call), path, ())

    def validity(
        self, radii: Any, *, directions: int = 8, layers: bool = True, generator: torch.Generator | None = None,
        progress: Progress | bool | None = None,
    ) -> Validity:  # fmt: skip
        """How far the map is valid: its relative error at distance r, over random directions d of length r,

            error = ||f(x + d) - A (x + d) - c|| / ||f(x + d) - f(x)||,

        the share of the network's change that the map gets wrong (root mean square over directions, of seed 0 without
        a generator): 0 until the edge of the tile of a piecewise-affine network. Layers are measured at their inputs.
        """
        check_progress(progress)
        distances = as_float64_array(radii, "radii").reshape(-1)
        if not len(distances) or not (distances > 0).all():
            raise InputError(f"radii must be positive numbers, got {radii!r}.")
        check_whole(directions, "directions")
        source = check_generator(generator) or torch.Generator().manual_seed(0)
        maps = [self, *(self.layer(path) for path in (self.layers if layers else ()))]
        errors = []
        with telling(progress, "validity") as tell:
            for i, one in enumerate(maps):
                tell(i / len(maps), one.path or "the whole map")
                errors.append(one._errors(distances, directions, source))
        sizes = np.array([float(one.point.double().norm()) for one in maps])
        return Validity(tuple(one.path for one in maps), distances, np.array(errors), sizes)

    def _errors(self, radii: np.ndarray, directions: int, generator: torch.Generator) -> list[float]:
        result = []
        for radius in radii:
            wrong = changed = 0.0
            for _ in range(directions):
                d = torch.randn(self.point.shape, generator=generator, dtype=torch.float64)
                u = self.point + (d * radius / d.norm()).to(self.point)
                value = self.evaluate(u).double()
                wrong += float((value - self(u).double()).square().sum())
                changed += float((value - self.value.double()).square().sum())
            result.append((wrong / changed) ** 0.5 if changed else 0.0)
        return result

    # running and differentiating the held network

    def _run(self, u: Tensor, record: Record | None) -> tuple[Tensor, Record]:
        """The held network on u; (output, record). With no record, one is made at u."""
        with as_written(self._model), module_paths(self._model) as paths, Holding(paths, u.dtype, record) as holding:
            output = self._tensor(self._function(mark_live(u * 1.0)))
        if record is None and kind_of(output) == FACTOR:
            lines = "\n".join(f"  - {line}" for line in origin_of(output))
            raise UnsupportedModelError(
                f"The model's output depends on its input in a way that no held factor makes affine:\n{lines}\n"
                "Activations, attention, norms and gates are held by themselves; of a model that ends in a softmax "
                "give the scores before it; in any other product, mark the factor to hold with .detach()."
            )
        return output, holding.record

    def _tensor(self, output: Any) -> Tensor:
        """What the map leads to: of a model the one tensor that is meant, of a layer the main one."""
        found = main_tensor(output) if self.path else one_tensor(output)
        if found is None or not found.is_floating_point():
            got = type(output).__name__ if found is None else found.dtype
            raise InputError(f"{self.path or 'the model'} must give a floating-point tensor, got {got}; give forward=.")
        return found

    def _like(self, u: Any) -> Tensor:
        u = torch.as_tensor(u).to(self.point)
        if u.numel() != self.point.numel():
            raise InputError(f"expected an input of shape {tuple(self.point.shape)}, got {tuple(u.shape)}.")
        return u.reshape(self.point.shape)

    def backward(self, w: Tensor) -> Tensor:
        """A^T on each of `[n, *output shape]`."""
        return _batched(self._output, self._zero, w)

    @cached_property
    def _transposed(self) -> tuple[Tensor, Tensor]:
        """(w, A^T w) as a graph: its derivative by w is A."""
        w = torch.zeros_like(self._output).requires_grad_()
        with torch.enable_grad():
            (result,) = torch.autograd.grad(self._output, self._zero, w, create_graph=True)
        return w, result

    def forward(self, v: Tensor) -> Tensor:
        """A on each of `[n, *input shape]`."""
        w, result = self._transposed
        if not result.requires_grad:  # A is 0
            return v.new_zeros(len(v), *self.value.shape)
        return _batched(result, w, v)


def _batched(output: Tensor, source: Tensor, vectors: Tensor) -> Tensor:
    """Vector-Jacobian products of each of `[n, *output shape]`."""
    if len(vectors) == 1:
        return torch.autograd.grad(output, source, vectors[0], retain_graph=True)[0].unsqueeze(0)
    return torch.autograd.grad(output, source, vectors, retain_graph=True, is_grads_batched=True)[0]


def _fresh(call: PartCall) -> Callable[[Tensor], Any]:
    """The layer's call with its other arguments as constants."""
    strip = lambda leaf: leaf if leaf is call.x or not isinstance(leaf, Tensor) else leaf.detach()  # noqa: E731
    return PartCall(call.path, call.module, call.x, tree_map(strip, call.args), tree_map(strip, call.kwargs))


def _as_point(model: nn.Module, x: Any) -> Tensor:
    point = as_rows(x, "x")
    if not point.is_floating_point():
        raise InputError(
            f"x must hold floating-point numbers, got {point.dtype}: an affine map needs a continuous input. For token "
            "ids give their embeddings, and forward=lambda m, e: m(inputs_embeds=e, use_cache=False) or the like."
        )
    if not point.numel() or not bool(point.isfinite().all()):
        raise InputError("x must be finite and not empty.")
    like = floating_like(model, point)
    return point.to(like.device, like.dtype).clone()
