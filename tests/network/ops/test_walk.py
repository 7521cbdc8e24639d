"""Adding an activation is one entry: what is registered once is seen by every part that looks at folds."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.network.ops.registry import OPERATIONS

from .test_docs import EXAMPLES

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


@pytest.fixture
def unknown() -> Iterator[None]:
    """softshrink as if nobody had entered it."""
    entry = OPERATIONS.pop("softshrink")
    yield
    OPERATIONS["softshrink"] = entry


def test_the_entry_of_the_page_is_seen_everywhere(unknown: None) -> None:
    exec(EXAMPLES[0], {})  # the few lines that docs/operation.md shows
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.Softshrink(0.3), nn.Linear(5, 2)).double().eval()
    x = torch.randn(40, 2, dtype=torch.float64)
    assert [site.op for site in ss.trace(net, x).sites] == ["softshrink"]  # without the entry it is a clamp and a sum
    tiling = ss.tessellate(net, VIEW)
    assert tiling.check().ok
    assert tiling.count > 10  # each unit folds twice
    inside = tiling.view.inputs(tiling.centroids())
    np.testing.assert_allclose(tiling.outputs(tiling.centroids()), net(torch.from_numpy(inside)).detach(), atol=1e-12)
    counts = ss.local_complexity(net, x, radius=0.2).counts
    assert counts.shape == (40, 1)
    assert counts.sum() > 0
    assert len(ss.normalization.fold_distances(net, x)) == 1
    slopes = torch.autograd.functional.jacobian(net, x[0])
    np.testing.assert_allclose(ss.local_map(net, x[:1]).matrix().reshape(2, 2), slopes, atol=1e-12)
    assert ss.report(net, x, out=None, include=["network"], progress=False)["network"].state == "measured"
