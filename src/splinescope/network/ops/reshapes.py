"""Ops that move, repeat or drop elements, and those that fill with constants."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..patches import padded
from .affine import identity
from .bend import COARSE
from .call import Call, Live, Refusal, Rows
from .refused import RANDOM
from .registry import affine, constant

RESHAPES = ("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
IDENTITIES = ("clone", "detach", "contiguous", "positive", "_to_copy", "to", "type_as")
"""Casts to a dtype as fine as the model's own change nothing: all is float64 here."""


@affine(*RESHAPES, role="shape")
def reshape(call: Call) -> Live:
    """Same elements in the same order: the exported shape says all."""
    shape = call.shape if call.merged == 1 else (call.merged, *call.shape)

    def run(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *shape)

    return replace(call.affine(run, run, inputs=call.lives[:1]), merged=call.merged)


@affine("detach")
@affine(*(op for op in IDENTITIES if op != "detach"), role="shape")
def unchanged(call: Call) -> Any:
    """Nothing happens to the values."""
    if not isinstance(call["self"], Live):
        return call["self"]  # made like a live value in dtype alone
    if not call.dtype.is_floating_point:
        raise Refusal(f"casts to {call.dtype}: not continuous.")
    if call.rounds_to is not None:
        raise Refusal(COARSE.format(call.rounds_to))
    return call.affine(identity, identity, inputs=call.lives[:1])


@affine("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(call: Call) -> Live:
    """Nothing, in eval."""
    if call["train"] and call["p"] > 0:
        raise Refusal(RANDOM)
    return call.affine(identity, identity, inputs=call.lives[:1])


@affine("copy", role="sum")
def copy(call: Call) -> Live | Rows:
    """`y[...] = source`, the values of `self` overwritten."""
    source, shape = call["src"], call.shape
    if not isinstance(source, Live):
        constant = source.tensor if isinstance(source, Rows) else source
        return Rows(constant.expand(1, *shape))

    def run(x: Tensor) -> Tensor:
        return x.expand(x.shape[0], *shape)

    return call.affine(run, run, inputs=(source,))


@affine(
    *("permute", "transpose", "movedim", "mT", "slice", "narrow", "select", "diagonal", "index_select"),
    *("split", "split_with_sizes", "chunk", "tensor_split", "unbind"),
    *("expand", "repeat", "tile", "repeat_interleave", "roll", "flip", "rot90"),
    *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unfold"),
    role="shape",
)
@affine(
    *("cat", "concat", "stack", "hstack", "dstack", "slice_scatter", "select_scatter"),
    *("im2col", "col2im", "tril", "triu"),
    role="sum",
)
def rearrange(call: Call) -> Live:
    """Elements move, repeat, add up or are padded with constants."""
    return call.affine()


@affine("pad", "constant_pad_nd", role="sum")
def pad(call: Call) -> Live:
    """Margins of constants (or of repeated elements)."""
    margins = call["pad"]
    plain = call.get("mode", "constant") == "constant" and len(margins) <= 4 and min(margins) >= 0
    shape = call.shape
    return call.affine(linear=(lambda x: padded(x, margins, shape)) if plain and call.rank == 3 else None)


@affine("index")
@affine("gather", role="shape")
@affine("index_put", "index_add", "index_fill", "index_copy", "scatter", role="placed")
@affine("masked_fill", "where", role="choice")
def by_constant_index(call: Call) -> Live:
    """Selection by indices or masks, which must be constants."""
    for argument in ("indices", "index", "mask", "condition"):
        if call.is_live(argument):
            raise Refusal(
                f"selects by a {argument} that depends on the input, so it may jump; write it with relu, "
                "leaky_relu, clamp, maximum or minimum, which are continuous."
            )
    return call.affine()


FILLS = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), 0.0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1.0),
    **dict.fromkeys(("full", "full_like", "new_full", "fill"), None),
}


@constant("zeros", "ones", "full")
@constant("zero", "fill", role="sum")
@constant("zeros_like", "new_zeros", "ones_like", "new_ones", "full_like", "new_full", role="made")
def filled(call: Call) -> Rows:
    """The same number everywhere, in every row."""
    value = FILLS[call.op]
    if value is None:
        given = call.get("fill_value", call.get("value"))
        if call.is_live("fill_value") or call.is_live("value"):
            raise Refusal("fills with a value that depends on the input; use expand.")
        value = float(given)
    return Rows(torch.full((1, *call.shape), value, dtype=call.dtype, device="cpu"))
