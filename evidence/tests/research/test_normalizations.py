"""Normalizations on equal footing."""

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope_research import fold_density
from splinescope_research.normalization.normalizations import (
    NORMALIZATIONS,
    compare_normalizations,
    normalized_mlp,
    sign_changes,
)

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


def blob() -> torch.Tensor:
    x = 0.3 * torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x + torch.tensor([1.5, 0.5])


def make(name: str) -> torch.nn.Sequential:
    return normalized_mlp((2, 16, 16, 16), name, generator=torch.Generator().manual_seed(0)).eval()


def test_batch_norm_alone_follows_data_off_the_origin():
    rows = {r.name: r for r in compare_normalizations(blob(), VIEW, depth=4, width=32, cells=32)}
    assert rows.keys() == NORMALIZATIONS.keys()
    assert (rows["batch"].splits == 1).all()
    for name, row in rows.items():
        if name != "batch":
            assert rows["batch"].ratios[-1] > 2 * np.nan_to_num(row.ratios[-1], posinf=0.0)


def test_rms_norm_moves_no_fold():
    """Dividing a row by its own root mean square changes no sign, and ReLU passes the factor on."""
    for a, b in zip(
        *(sign_changes(make(n), blob(), VIEW, cells=20).rasters.values() for n in ("RMS", "zero bias")), strict=True
    ):
        assert np.array_equal(a.values, b.values)


def test_weight_norm_moves_no_merge_at_initialization():
    torch.testing.assert_close(make("weight")(blob()), make("none")(blob()))


def test_layer_norm_is_not_piecewise_affine_until_its_statistics_are_held():
    model = make("layer")
    with pytest.raises(ss.UnsupportedModelError):
        fold_density(model, blob(), VIEW)
    frozen = ss.freeze_statistics(model, blob())
    assert fold_density(frozen, blob(), VIEW, cells=10).tiles > 100


def test_sign_changes_never_exceed_the_folds_of_the_exact_tiling():
    model = make("none")
    grid, exact = sign_changes(model, blob(), VIEW, cells=16), fold_density(model, blob(), VIEW, cells=16)
    for depth, raster in grid.rasters.items():
        assert (exact.rasters[depth].values[raster.values > 0] > 0).all()


def test_sign_changes_neither_change_a_network_nor_miss_all_of_it():
    net = make("batch").train()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        sign_changes(net, torch.zeros(1, 2), VIEW, cells=4)
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    with pytest.raises(ss.InputError, match="found none"):
        sign_changes(torch.nn.Linear(2, 2).double(), torch.zeros(1, 2), VIEW, cells=4)


def test_bad_input_is_told():
    with pytest.raises(ss.InputError, match="normalization must be one of"):
        normalized_mlp((2, 8), "power")
    with pytest.raises(ss.InputError, match="multiples of 4"):
        normalized_mlp((2, 9), "group")
