"""`Holding`: a forward pass in which everything that is not affine is held at the values it has at one point.

Values are of three kinds: **constant** (independent of the input), **live** (affine in the input once the factors are
held) and **factor** (depends on the input in another way, and is held). A first pass records the factors; passing again
with them runs the held network, which is affine, on any input.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from ..network.ops import operation
from ..network.ops.bend import COARSE, is_coarser
from ..network.ops.composed import written_out
from ..network.ops.python_names import FACTS, SCALARS, plain_name, writes
from ..network.watching.intercept import Functions
from ..support.errors import UnsupportedModelError
from ._held_values import attention_weights, gate, opened, statistics, winners

_KIND = "_splinescope_kind"
_ORIGIN = "_splinescope_origin"
_SOURCE = "_splinescope_source"
LIVE, GATED, FACTOR = "live", "gated", "factor"


def mark_live(x: Tensor) -> Tensor:
    """Declare a tensor to be the input that everything is affine in."""
    setattr(x, _KIND, LIVE)
    return x


def kind_of(value: Any) -> str | None:
    """LIVE, GATED (live, and out of an activation), FACTOR, or None for constants."""
    return getattr(value, _KIND, None) if isinstance(value, Tensor) else None


def origin_of(value: Any) -> tuple[str, ...]:
    """Where a factor was made: lines of the form "path: what"."""
    return getattr(value, _ORIGIN, ())


class Record(list[tuple[str, Any]]):
    """What was held, in the order of the calls: (function's name, values)."""


class Holding(Functions):
    """Runs a model with its factors recorded (`replay` None) or taken from a record.

    Args:
        paths: Stack of the paths of the modules being run, the innermost last, for messages.
        precision: Dtype of the model.
        replay: A record of an earlier pass of the same model.
    """

    def __init__(self, paths: list[str], precision: torch.dtype, replay: Record | None = None) -> None:
        super().__init__()
        self._precision = precision
        self._paths = paths
        self._replay = replay
        self._at = 0
        self.record: Record = Record() if replay is None else replay

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        kinds = [kind_of(leaf) for leaf in given]
        name = plain_name(func)
        known = operation(name)
        if "dropout" in name:
            _check_dropout(func, args, kwargs, self._where(name))
        if not any(kinds):
            result = func(*args, **kwargs)
            if (writes(func, kwargs) or name == "setitem") and kind_of(args[0]):
                _mark(args[0], None)
            return result
        if name in FACTS or (known.role == "made" and not any(kinds[1:])):
            return func(*args, **kwargs)
        if name == "setitem":
            func = _with_items
        if getattr(func, "__module__", "") == "torch.nn.functional" and known.role is None and name not in _WHOLE:
            with self:
                return opened(func)(*args, **kwargs)
        result = self._apply(func, name, args, kwargs, [k for k in kinds if k])
        if isinstance(result, Tensor) and kind_of(result) != FACTOR and is_coarser(result.dtype, self._precision):
            raise UnsupportedModelError(f"{self._where(name)}: {name} {COARSE.format(result.dtype)}")
        if known.elementwise and isinstance(result, Tensor):
            _follow(result, given)
        in_place = name == "setitem" or writes(func, kwargs)
        if in_place and isinstance(args[0], Tensor) and result is not args[0]:
            args[0].copy_(result)
            _mark(args[0], kind_of(result), origin_of(result))
            setattr(args[0], _SOURCE, getattr(result, _SOURCE, None))
            return args[0]
        return result

    def _apply(self, func: Any, name: str, args: Any, kwargs: Any, kinds: list[str]) -> Any:
        lives = [k for k in kinds if k != FACTOR]
        if not lives or name in SCALARS:
            return self._factor(func, name, args, kwargs)
        role, first = operation(name).role, args[0] if args else kwargs.get("input")
        alone = kind_of(first) in (LIVE, GATED) and len(kinds) == 1
        if name == "iter":
            return iter(_mark(first.unbind(0), kinds[0]))
        to_the_first = name == "pow" and _exponent(args, kwargs) == 1
        if role == "shape" or "dropout" in name or to_the_first:
            return _mark(func(*args, **kwargs), kinds[0] if alone else LIVE)
        if role in ("sum", "placed"):
            if _adds_factors(role, args, kwargs):  # affine plus held: neither
                return self._factor(func, name, args, kwargs, "")
            if name == "batch_norm" and (args[5] if len(args) > 5 else kwargs.get("training", False)):
                return self._factor(func, name, args, kwargs, "batch_norm takes the statistics of the batch at hand")
            return _mark(func(*args, **kwargs), LIVE)
        if role in ("product", "added product"):
            return self._product(func, name, args, kwargs)
        if name == "lerp":
            start, end, weight = (dict(zip(("input", "end", "weight"), args, strict=False)) | kwargs).values()
            with self:
                return start + weight * (end - start)
        if role == "quotient" and kind_of(first) in (LIVE, GATED) and not kwargs.get("rounding_mode"):
            other = args[1] if len(args) > 1 else kwargs["other"]
            return _mark(func(first, self._hold(other, "divisor")), LIVE)
        if role == "choice":
            return self._choice(func, name, args, kwargs)
        if alone and name in ("square", "pow") and kinds == [GATED]:  # of an activation: one too
            rest = 1 if name == "square" else _exponent(args, kwargs) - 1
            return _mark(first * self._kept(name, lambda: first.detach() ** rest), GATED)
        if alone and role in ("piecewise", "smooth", "curve"):
            rest = args[1:], {key: value for key, value in kwargs.items() if key != "inplace"}
            factor, offset = self._kept(name, lambda: gate(func, role == "piecewise", first, *rest))
            return _mark(factor * first + offset, GATED)
        if alone and name == "glu":
            value, gates = first.chunk(2, *args[1:], **{k: v for k, v in kwargs.items() if k == "dim"})
            return _mark(value * self._kept(name, lambda: gates.detach().sigmoid()), GATED)
        if alone and role == "norm":
            return self._norm(name, first, args[1:], kwargs)
        if name == "scaled_dot_product_attention":
            return self._attention(*args, **kwargs)
        if role == "pool" and alone:
            place, dims = self._kept(name, lambda: winners(name, first.detach(), args[1:], kwargs))
            won = first.flatten(-dims).gather(-1, place.flatten(-dims)).reshape(place.shape)
            return (_mark(won, GATED), place) if kwargs.get("return_indices") else _mark(won, GATED)
        if role == "extreme":
            return self._extreme(func, name, args, kwargs)
        if role == "sort" and alone:
            return self._sort(func, name, args, kwargs)
        with self:  # what is made of others: a median, a norm of one
            parts = written_out(func, args, kwargs) if FACTOR not in kinds else None
            if parts is not None:
                return parts()
        return self._factor(func, name, args, kwargs)

    # how each kind is held

    def _product(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Live times constants or factors is live; of two live factors one that came out of an activation is held."""
        known = operation(name)
        added, factors = (args[:1], args[1:]) if known.role == "added product" else ((), args)
        leaves = tree_flatten((factors, kwargs))[0]
        flat = [leaf for leaf in leaves if kind_of(leaf) in (LIVE, GATED)]
        distinct = list({id(leaf): leaf for leaf in flat}.values())
        gated = [leaf for leaf in distinct if kind_of(leaf) == GATED]
        # all are one value, or elementwise functions of one
        one_source = len({id(getattr(leaf, _SOURCE, None) or leaf) for leaf in flat}) == 1
        if any(kind_of(leaf) == FACTOR for leaf in (added if flat else leaves)):  # affine plus held: neither
            return self._factor(func, name, args, kwargs, "")
        if len(flat) <= 1:
            return _mark(func(*args, **kwargs), LIVE)
        if len(flat) == 2 == len(leaves) and gated == distinct and one_source and known.elementwise:
            return _mark(func(flat[0], self._hold(flat[1], "gate")), GATED)  # of one activation: one too
        if len(distinct) == 2 == len(flat) and len(gated) == 1:
            held = self._hold(gated[0], "gate")
            swap = lambda leaf: held if leaf is gated[0] else leaf  # noqa: E731
            return _mark(func(*added, *tree_map(swap, factors), **tree_map(swap, kwargs)), LIVE)
        return self._factor(func, name, args, kwargs, f"{name} multiplies values that both depend on the input")

    def _choice(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """`where` and `masked_fill` with their condition held."""
        names = ("input", "condition", "other") if func is Tensor.where else ("condition", "input", "other")
        given = dict(zip(names if name == "where" else ("input", "mask", "value"), args, strict=False)) | kwargs
        if name == "where" and "input" not in given:
            given["input"] = given.pop("self")
        key = "condition" if name == "where" else "mask"
        mask, rest = given[key], [given["input"], given["other" if name == "where" else "value"]]
        if any(kind_of(value) == FACTOR for value in rest):
            return self._factor(func, name, args, kwargs)
        mask = self._hold(mask, "condition") if kind_of(mask) else mask
        if name == "where":
            return _mark(torch.where(mask, *rest), LIVE)
        return _mark(rest[0].masked_fill(mask, rest[1]), LIVE)

    def _norm(self, name: str, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A norm with its scale held; centering is linear and stays."""
        if name == "instance_norm":
            given = dict(zip(("running_mean", "running_var", "weight", "bias", "use_input_stats"), args, strict=False))
            if not (given | kwargs).get("use_input_stats", True):
                func = torch.nn.functional.instance_norm  # with running statistics, which do not depend on the input
                return _mark(func(x, *args, **kwargs), LIVE)
        center, scale, weight, bias = statistics(name, x.detach(), args, kwargs)
        y = center(x) * self._kept(name, lambda: scale)
        y = y if weight is None else y * weight
        return _mark(y if bias is None else y + bias, LIVE)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        """Attention with its weights held: linear in the values."""
        if dropout_p > 0:
            raise UnsupportedModelError(f"{self._where('attention')}: dropout is on; call model.eval() first.")
        kind = LIVE if kind_of(value) in (LIVE, GATED) else FACTOR
        if enable_gqa:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        weights = self._kept(
            "attention", lambda: attention_weights(query.detach(), key.detach(), attn_mask, is_causal, scale)
        )
        return _mark(weights @ value, kind)

    def _extreme(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """max and min with the winner's place held."""
        given = dict(zip(("input", "other"), args, strict=False)) | kwargs
        a, b = given.get("input"), given.get("other", given.get("dim"))
        low = "min" in name
        if isinstance(b, Tensor):
            if FACTOR in (kind_of(a), kind_of(b)):
                return self._factor(func, name, args, kwargs)
            first = self._kept(name, lambda: (a <= b) if low else (a >= b))
            return _mark(torch.where(first, a, b), GATED)
        keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        if kind_of(a) == FACTOR:
            return self._factor(func, name, args, kwargs)
        if b is None or isinstance(b, (tuple, list)):  # over several axes: no places come with the values
            axes = tuple(axis % a.dim() for axis in b or range(a.dim()))
            rows = a.movedim(axes, tuple(range(-len(axes), 0))).flatten(-len(axes))
            place = self._kept(name, lambda: (rows.argmin if low else rows.argmax)(-1, keepdim=True))
            value = rows.gather(-1, place).squeeze(-1)
            return _mark(_with_axes(value, axes) if keep else value, GATED)
        place = self._kept(name, lambda: (a.argmin if low else a.argmax)(b, keepdim=True))
        value = a.gather(b, place)
        value = value if keep else value.squeeze(b)
        if name in ("amax", "amin"):
            return _mark(value, GATED)
        kind = torch.return_types.min if low else torch.return_types.max
        return kind((_mark(value, GATED), place if keep else place.squeeze(b)))

    def _sort(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Sorted values, or the largest few, with their order held."""
        names = ("input", "dim") if name == "sort" else ("input", "k", "dim")
        given = dict(zip(names, args, strict=False)) | kwargs
        place = self._kept(name, lambda: func(*args, **kwargs).indices)
        value = _mark(given["input"].gather(given.get("dim", -1), place), GATED)
        return getattr(torch.return_types, name)((value, place))

    # holding

    def _factor(self, func: Any, name: str, args: Any, kwargs: Any, why: str | None = None) -> Any:
        """The call's result as it is at the point, held from here on; `why` it must be ("": for what it is given)."""
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        origins = [line for value in given for line in origin_of(value)]
        if why != "" and any(kind_of(leaf) in (LIVE, GATED) for leaf in given):
            origins.append(f"{self._where(name)}: {why or f'{name} is not affine'}")

        def compute() -> Any:
            with torch.no_grad():
                return tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, func(*args, **kwargs))

        return _mark(self._kept(name, compute), FACTOR, tuple(dict.fromkeys(origins)))

    def _hold(self, value: Any, what: str) -> Any:
        """A value at the point, detached."""
        if not isinstance(value, Tensor) or kind_of(value) is None:
            return value
        return self._kept(what, lambda: value.detach().clone())

    def _kept(self, name: str, compute: Callable[[], Any]) -> Any:
        """Computed and recorded the first time, taken from the record afterwards."""
        if self._replay is None:
            value = compute()
            self.record.append((name, value))
            return value
        if self._at >= len(self._replay) or self._replay[self._at][0] != name:
            raise UnsupportedModelError(
                f"{self._where(name)}: the model takes another way when it is run again (control flow that depends "
                "on the values of its input, or random numbers)."
            )
        self._at += 1
        return self._replay[self._at - 1][1]

    def _where(self, name: str) -> str:
        return f"{self._paths[-1] if self._paths and self._paths[-1] else 'model'} ({name})"


_WHOLE = frozenset({
    *("softmax", "log_softmax", "softmin", "glu", "scaled_dot_product_attention", "embedding", "one_hot"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"),
})  # fmt: skip
"""Functions of `torch.nn.functional` without a role that are not looked into."""


def _with_items(target: Tensor, index: Any, value: Any) -> Tensor:
    """A copy of `target` after `target[index] = value`."""
    result = target.clone()
    result[index] = value
    return result


def _with_axes(value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Axes of length 1 where some were taken out."""
    for axis in sorted(axes):
        value = value.unsqueeze(axis)
    return value


def _exponent(args: Any, kwargs: Any) -> Any:
    exponent = args[1] if len(args) > 1 else kwargs["exponent"]
    return exponent if isinstance(exponent, (int, float, Tensor)) else None


def _adds_factors(role: str | None, args: Any, kwargs: Any) -> bool:
    """Whether a sum has a held value among its terms; whole numbers and booleans may be places instead."""
    held = [leaf for leaf in tree_flatten((args, kwargs))[0] if kind_of(leaf) == FACTOR]
    return any(leaf.is_floating_point() or role != "placed" for leaf in held)


def _mark(value: Any, kind: str | None, origins: tuple[str, ...] = ()) -> Any:
    for leaf in tree_flatten(value)[0]:
        if isinstance(leaf, Tensor):
            setattr(leaf, _KIND, kind)
            setattr(leaf, _ORIGIN, origins)
            setattr(leaf, _SOURCE, None)
    return value


def _follow(result: Tensor, given: list[Tensor]) -> None:
    """Note an elementwise function of one value as such: it is an activation, written out.

    `0.5 * z * (1 + torch.tanh(...))` comes out of an activation as `F.gelu(z)` does, so that it can be the gate of a
    product.
    """
    if any(kind_of(leaf) is None and leaf.numel() > 1 for leaf in given):
        return
    depending = [leaf for leaf in given if kind_of(leaf)]
    for leaf in depending:
        if getattr(leaf, _SOURCE, None) is None:
            setattr(leaf, _SOURCE, object())
    sources = [getattr(leaf, _SOURCE) for leaf in depending]
    if any(source is not sources[0] for source in sources):
        return
    bent = any(kind_of(leaf) in (GATED, FACTOR) for leaf in depending)
    if bent and kind_of(result) == LIVE:
        setattr(result, _KIND, GATED)
    setattr(result, _SOURCE, sources[0])


def _check_dropout(func: Any, args: Any, kwargs: Any, where: str) -> None:
    given = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
    if given.get("training", func.__name__ == "dropout" and func.__module__ == "torch.nn.functional") and given.get(
        "p", 0.5
    ):
        raise UnsupportedModelError(f"{where}: dropout is on, so the model is random; call model.eval() first.")
