"""Ops that move, repeat or drop elements: each output element is one input element or a constant."""

from __future__ import annotations

from torch import Tensor

from ._call import Call, Live, Refusal
from ._registry import affine
from .affine_ops import identity

RESHAPES = (
    *("view", "_unsafe_view", "reshape", "_reshape_copy", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *(
        "ravel",
        "view_as",
        "reshape_as",
        "_reshape_alias",
        "view_copy",
        "squeeze_copy",
        "unsqueeze_copy",
        "atleast_2d",
    ),
)
IDENTITIES = (
    *(
        "clone",
        "contiguous",
        "detach",
        "alias",
        "lift_fresh_copy",
        "lift_fresh",
        "dropout",
        "feature_dropout",
    ),
    *(
        "alpha_dropout",
        "feature_alpha_dropout",
        "_to_copy",
        "to",
        "positive",
        "type_as",
        "resolve_conj",
        "resolve_neg",
    ),
)


@affine(*RESHAPES)
def reshape(call: Call) -> Live:
    """Same elements in the same order: the exported shape says all."""
    shape = call.shape

    def run(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *shape)

    return call.affine(run, run, inputs=call.lives[:1])


@affine(*IDENTITIES)
def unchanged(call: Call) -> Live:
    """Nothing happens to the values (dropout in eval; floating casts, since all is float64 here)."""
    dtype = call.get("dtype")
    if dtype is not None and not dtype.is_floating_point:
        raise Refusal(f"casts to {dtype}: not continuous.")
    if (call.get("train") or call.get("training")) and call.get("p", 1.0) > 0:
        raise Refusal("is random in training mode; call model.eval() first.")
    return call.affine(identity, identity, inputs=call.lives[:1])


@affine("copy")
def copy(call: Call) -> Live | object:
    """`y[...] = source`, the values of `self` overwritten."""
    source, shape = call["src"], call.shape
    if not isinstance(source, Live):
        return source

    def run(x: Tensor) -> Tensor:
        return x.expand(x.shape[0], *shape)

    return call.affine(run, run, inputs=(source,))


@affine(
    *(
        "permute",
        "transpose",
        "t",
        "movedim",
        "swapaxes",
        "slice",
        "select",
        "narrow",
        "index_select",
        "diagonal",
    ),
    *(
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "tensor_split",
        "unsafe_split",
        "unsafe_chunk",
        "hsplit",
    ),
    *(
        "cat",
        "concat",
        "stack",
        "hstack",
        "vstack",
        "dstack",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
    ),
    *(
        "expand",
        "expand_as",
        "broadcast_to",
        "repeat",
        "tile",
        "repeat_interleave",
        "roll",
        "flip",
        "fliplr",
        "flipud",
    ),
    *(
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "native_channel_shuffle",
        "unfold",
        "im2col",
        "col2im",
    ),
    *("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d"),
    *("replication_pad1d", "replication_pad2d", "replication_pad3d", "rot90", "tril", "triu", "as_strided"),
)
def rearrange(call: Call) -> Live:
    """Elements move, repeat, add up or are padded with constants."""
    return call.affine()


@affine("index", "gather", "index_put", "_unsafe_index", "take_along_dim", "masked_fill", "where", "index_add")
@affine("index_fill", "index_copy", "scatter")
def by_constant_index(call: Call) -> Live:
    """Selection by indices or masks, which must be constants."""
    for argument in ("indices", "index", "mask", "condition"):
        if call.is_live(argument):
            raise Refusal(
                f"selects by a {argument} that depends on the input, so it may jump; write it with relu, leaky_relu, "
                "clamp, maximum or minimum, which are continuous."
            )
    return call.affine()
