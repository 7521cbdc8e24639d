"""`where` and its kin, by a comparison of live values: read where they are continuous, else refused with the jump."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss

from ..wrapped import Lambda

BOUNDS = torch.tensor([-0.5, 0.0, 0.25, 1.0])
CONTINUOUS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "leaky relu": (lambda z: torch.where(z > 0, z, 0.1 * z), lambda z: nn.functional.leaky_relu(z, 0.1)),
    "absolute value": (lambda z: torch.where(z < 0, -z, z), torch.abs),
    "gate": (lambda z: z * (z > 0), torch.relu),
    "gate in floats": (lambda z: (z >= 0).to(z.dtype) * z, torch.relu),
    "masked": (lambda z: z.masked_fill(z <= 0, 0), torch.relu),
    "zeros": (lambda z: torch.where(z > 0, z, torch.zeros_like(z)), torch.relu),
    "a bound for each": (lambda z: torch.where(z > BOUNDS, z, BOUNDS.to(z)), lambda z: torch.maximum(z, BOUNDS.to(z))),
    "turned around": (lambda z: torch.where(-2 * z + 1 > 0, z, 0.5), lambda z: z.clamp(max=0.5)),
    "two of one value": (lambda z: torch.where(3 * z > z + 1, z / 4, (1 - z) / 4),
                         lambda z: (z - 0.5).abs() / 4 + 0.125),
}  # fmt: skip


@pytest.mark.parametrize("label", CONTINUOUS)
def test_a_continuous_choice_is_the_fold_it_is_another_way_to_write(label: str) -> None:
    chosen, plain = CONTINUOUS[label]
    torch.manual_seed(0)
    layers = nn.Linear(2, 4), nn.Linear(4, 1)
    ours, theirs = (nn.Sequential(layers[0], Lambda(f), layers[1]).double().eval() for f in (chosen, plain))
    x = torch.randn(64, 2, dtype=torch.float64)
    torch.testing.assert_close(ss.trace(ours, x)(x), theirs(x), rtol=0, atol=1e-13)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)
    tilings = [ss.tessellate(model, view) for model in (ours, theirs)]
    assert tilings[0].check().ok
    assert tilings[0].count == tilings[1].count > 4
    assert [site.units for site in tilings[0].sites] == [4]


JUMPS = {
    "constant": (lambda z: torch.where(z > 0.25, z, 1.0), "where jumps by 0.75 where .* is 0.25: not continuous"),
    "gate": (lambda z: z * (z > 1), "mul jumps by 1 where .* is 1"),
    "infinite": (lambda z: z.masked_fill(z < 0, -torch.inf), "masked_fill jumps by inf"),
    "one of many": (lambda z: torch.where(z > BOUNDS, z, 0.0), "where jumps by 0.5 where .* is -0.5"),
    "other numbers": (lambda z: torch.where(z > 0, z.flip(1), z), "where chooses by a comparison, and is continuous"),
    "one for all": (lambda z: torch.where(z[:, :1] > 0, z, 0.0), "where chooses by a comparison"),
    "two values": (lambda z: torch.where(z > z.flip(1), z, 0.0), "gt is not continuous"),
    "a count": (lambda z: z * (z > 0).sum(1, keepdim=True), "sum takes the result of a comparison"),
    "two conditions": (lambda z: torch.where((z > 0) & (z < 1), z, 2 * z), "takes the result of a comparison"),
    "both": (lambda z: (z > 0) * (z < 1) * z, "takes the result of a comparison"),
    "the condition": (lambda z: (z > 0).to(z.dtype), "is not continuous"),
    "added": (lambda z: z + (z > 0), "add takes the result of a comparison"),
}


@pytest.mark.parametrize("label", JUMPS)
def test_a_choice_that_may_jump_is_refused_with_the_reason(label: str) -> None:
    function, words = JUMPS[label]
    with pytest.raises(ss.UnsupportedModelError, match=words):
        ss.trace(Lambda(function).eval(), torch.zeros(2, 4))
