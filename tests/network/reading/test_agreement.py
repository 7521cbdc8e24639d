"""What was read is compared with the module itself, at every batch size where its code may differ."""

import re

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss

from ..wrapped import Lambda, refusal


@pytest.mark.parametrize(
    ("asks", "rows", "condition"),
    [
        (lambda x: x.shape[0] == 1, 1, "Ne(N, 1)"),
        (lambda x: x.shape[0] > 4, 8, "N <= 4"),  # of the sizes that are always compared
        (lambda x: len(x) > 40, 41, "N <= 40"),
        (lambda x: x.numel() >= 3000, 128, "24*N < 3000"),
        (lambda x: x.shape[0] == 7, 7, "Ne(N, 7)"),
    ],
)
def test_a_branch_at_any_batch_size_is_found_and_named_with_its_line(asks, rows, condition):
    text = refusal(lambda x: x.relu() + 0.25 if asks(x) else x.relu())
    assert "differs by 0.25 (of " in text
    assert f"on a batch of {rows} row" in text
    assert rows == 1 or re.search(rf"\(test_agreement\.py, line \d+ asks whether {re.escape(condition)}\)", text)


def test_a_branch_beyond_what_can_be_compared_is_refused_and_one_that_changes_nothing_is_read():
    assert "134217728 rows" in refusal(lambda x: x.relu() if x.shape[0] < 10**8 else x)
    halves = Lambda(lambda x: torch.cat([x[:10].relu(), x[10:].relu()]) if x.shape[0] > 10 else x.relu())
    assert ss.trace(halves, torch.zeros(20, 3)).sites[0].units == 3


def test_what_was_read_is_not_used_again_when_larger_batches_have_changed():
    """A limit that no attribute shows: the second trace must see it on more than three rows."""
    limit = [100]
    model = Lambda(lambda x: x.relu() + 1.0 if x.shape[0] > limit[0] else x.relu())
    with pytest.raises(ss.UnsupportedModelError, match="batch of 128 rows"):
        ss.trace(model, torch.zeros(1, 3))
    limit[0] = 10**15
    ss.trace(model, torch.zeros(1, 3))
    limit[0] = 4
    with pytest.raises(ss.UnsupportedModelError, match="batch of 8 rows"):
        ss.trace(model, torch.zeros(1, 3))


def test_a_module_whose_result_depends_on_the_calls_before_is_refused():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.calls * x.relu()

    model = Counting()
    with pytest.raises(ss.UnsupportedModelError, match=r"does not do what was read.*keep state between calls"):
        ss.trace(model, torch.zeros(2, 3))
    assert model.calls == 0


def test_a_module_that_fails_on_single_rows_is_refused():
    def picky(x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise ValueError("too few")
        return x.relu()

    assert "it fails (ValueError: too few) on a batch of 1 row" in refusal(picky)


def test_rounding_of_a_short_dtype_is_no_difference():
    """A sum that cancels: float32 keeps no digit of it, float64 shows that both do the same."""
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e7, -1e7]])), model.bias.zero_()
    net = ss.trace(nn.Sequential(Lambda(lambda x: x[:, :1] + torch.tensor([0.0, 1e-7])), model), torch.zeros(1, 2))
    values = net(torch.randn(5, 2, dtype=torch.float64))  # 1e7 x - 1e7 (x + 1e-7): float64 keeps it to 1e-8
    assert torch.allclose(values, torch.full_like(values, -1.0), rtol=0, atol=1e-6)


def noise_of_sums(a: nn.Linear, h: Tensor) -> Tensor:
    w = torch.linspace(1, 2, 8)
    return ((h * w).sum(1) - (h.flip(1) * w.flip(0)).sum(1))[:, None]


NOISES = {
    "reversed sums": noise_of_sums,
    "a product as a sum": lambda a, h: (h * a.weight).sum(1, keepdim=True) - a(h),
    "a scale and back": lambda a, h: a(h) - a(h * 3) / 3,
    "behind a fold": lambda a, h: (a(h) - a(h * 3) / 3).relu() * 5,
}


class Cancelling(nn.Module):
    def __init__(self, seed: int, of: str) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.l, self.a, self.of = nn.Linear(2, 8), nn.Linear(8, 1, bias=False), of

    def forward(self, x: Tensor) -> Tensor:
        return NOISES[self.of](self.a, self.l(x).relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("of", NOISES)
def test_an_output_of_rounding_noise_alone_is_no_difference(of: str, dtype: torch.dtype) -> None:
    for seed in range(3):
        net = ss.trace(Cancelling(seed, of).to(dtype), torch.zeros(1, 2, dtype=dtype))
        assert net(torch.randn(5, 2, dtype=torch.float64)).abs().max() < 1e-14


def test_terms_that_cancel_hide_no_difference_beyond_their_roundings() -> None:
    unused = nn.Linear(8, 1)

    def forward(x: Tensor) -> Tensor:
        return noise_of_sums(unused, x.repeat(1, 4).relu()) + 1e-2 * (x.shape[0] == 1)

    assert "differs by 0.01" in refusal(forward, (2,))
