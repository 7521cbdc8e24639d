"""Laws that hold for every network: drawn at random, with the smallest ones by name."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator

import splinescope as ss
from splinescope.landscape.surface import LossSurface


@pytest.mark.parametrize("turn", [0.0, 0.4, np.pi / 4])
def test_the_nonconvex_share_counts_directions_that_bend_down(turn):
    """In any frame: a bowl has none, its negative and a saddle are all of it, a trough that turns up has one half."""
    axis = np.linspace(-1, 1, 22)  # 20 inner points an axis, half of them on either side of 0
    a, b = np.meshgrid(axis, axis, indexing="ij")
    u, v = np.cos(turn) * a - np.sin(turn) * b, np.sin(turn) * a + np.cos(turn) * b
    shares = [
        LossSurface((axis, axis), z).nonconvex_fraction
        for z in (u**2 + 0.2 * v**2, -(u**2) - 0.2 * v**2, u**2 - 0.2 * v**2, -(u**2) + 0.2 * v**2)
    ]
    assert shares == [0.0, 1.0, 1.0, 1.0]
    if turn == 0.0:
        assert LossSurface((axis, axis), u**3 + v**2).nonconvex_fraction == 0.5
        assert LossSurface((axis, axis), v**3 + 5 * u**2).nonconvex_fraction == 0.5
    lines = [LossSurface((axis,), z).nonconvex_fraction for z in (axis**2, -(axis**2), axis**3)]
    assert lines == [0.0, 1.0, 0.5]


def test_the_standard_error_of_the_trace_is_the_spread_of_its_estimates():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    matrix = root @ root.T
    found = [
        ss.landscape.spectrum_summary(
            aslinearoperator(matrix), method="matrix-free", probes=25, generator=torch.Generator().manual_seed(seed)
        )
        for seed in range(150)
    ]
    scores = np.array([(f.trace - np.trace(matrix)) / f.trace_error for f in found])
    # 150 draws: the spread is known to 6%, widened by the estimate of each error itself (t with 24 degrees, 4%)
    assert 0.8 < scores.std() < 1.3
    assert abs(scores.mean()) < 0.35
    errors = np.array([f.trace_error for f in found])
    true = np.sqrt(2 * (matrix**2).sum() - 2 * (np.diag(matrix) ** 2).sum()) / np.sqrt(25)  # random signs, by hand
    assert errors.mean() == pytest.approx(true, rel=0.1)
