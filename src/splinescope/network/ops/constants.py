"""Ops whose result does not depend on the values they are given."""

from __future__ import annotations

import torch

from .call import Call, Refusal, Rows
from .registry import constant

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
