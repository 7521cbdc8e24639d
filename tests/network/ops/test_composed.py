"""Order statistics by sorted pairs: those of the ranks that are asked for, and no comparison that none needs."""

from itertools import product

import pytest
import torch

from splinescope.network.ops.composed import selecting, sorted_values


@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_ranks_are_selected_and_nothing_else_is_compared(count: int) -> None:
    """Rows of zeros and ones are enough: what sorts all of them sorts everything."""
    x = torch.tensor(list(product((0.0, 1.0), repeat=count)))
    whole = sum(len(low) for low, _ in selecting(count, set(range(count))))
    for start in range(count):
        for length in range(1, count - start + 1):
            for descending in (False, True):
                found = sorted_values(x, 1, descending, start, length)
                assert torch.equal(found, x.sort(1, descending).values[:, start : start + length])
        assert sum(len(low) for low, _ in selecting(count, {start})) <= whole
    assert sum(len(low) for low, _ in selecting(5, {2})) == 8 < sum(len(low) for low, _ in selecting(5, set(range(5))))
