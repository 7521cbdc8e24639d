"""Curvature products, spectra, conditioning and skips against dense references and known numbers."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian

import splinescope as ss
from splinescope.landscape.skips import find_skips
from splinescope.landscape.spectrum import extreme_eigenvalues

from .networks import CASES, case, parameters

SMALL = [name for name in CASES if "1e8" not in name]


def dense_hessian(model, x, y, names, loss):
    """The Hessian of the mean loss by torch.func.hessian, as one matrix."""
    moving = {name: p for name, p in parameters(model).items() if name in names}
    fixed = {name: p for name, p in parameters(model).items() if name not in names}

    def value(flat):
        pieces = flat.split([p.numel() for p in moving.values()])
        given = {name: piece.reshape(p.shape) for (name, p), piece in zip(moving.items(), pieces, strict=True)}
        outputs = functional_call(model, {**fixed, **given}, (x,))
        return (outputs - y).square().sum() / len(x) if loss == "squared" else nn.functional.cross_entropy(outputs, y)

    return hessian(value)(torch.cat([p.reshape(-1) for p in moving.values()])).numpy()


@pytest.mark.parametrize("name", SMALL)
def test_products_give_the_dense_hessian(name):
    model, x, y, _ = case(name)
    matrix = ss.curvature(model, x, y, kind="hessian", batch_size=4)
    np.testing.assert_allclose(matrix.dense(), dense_hessian(model, x, y, matrix.names, "squared"), atol=1e-11)


@pytest.mark.parametrize("name", SMALL)
def test_the_hessian_of_one_layer_is_its_gauss_newton_matrix(name):
    model, x, y, layer = case(name)
    ggn = ss.curvature(model, x, y, layer=layer).dense()
    np.testing.assert_allclose(ggn, ss.curvature(model, x, y, layer=layer, kind="hessian").dense(), atol=1e-12)


def test_cross_entropy_gives_the_generalized_gauss_newton_matrix():
    model, x, _, _ = case("convnet, convolution")
    y = torch.tensor([0, 1, 1, 0, 1, 0])
    ggn = ss.curvature(model, x, y, loss="cross_entropy", batch_size=4)
    J = torch.autograd.functional.jacobian(
        lambda *p: functional_call(model, dict(zip(ggn.names, p, strict=True)), (x,)), tuple(parameters(model).values())
    )
    J = torch.cat([part.flatten(2) for part in J], 2)
    p = model(x).detach().softmax(1)
    want = torch.einsum("ncp,ncd,ndq->pq", J, torch.diag_embed(p) - p[:, :, None] * p[:, None], J) / len(x)
    np.testing.assert_allclose(ggn.dense(), want, atol=1e-13)
    full = ss.curvature(model, x, y, loss="cross_entropy", kind="hessian")
    np.testing.assert_allclose(full.dense(), dense_hessian(model, x, y, full.names, "cross_entropy"), atol=1e-12)


def test_matrix_free_spectrum_is_the_dense_one():
    model, x, y, _ = case("mlp, first layer", points=40)
    matrix = ss.curvature(model, x, y)
    generator = torch.Generator().manual_seed(0)
    dense = ss.landscape.spectrum_summary(matrix)
    free = ss.landscape.spectrum_summary(matrix, method="matrix-free", probes=400, generator=generator)
    assert (dense.method, free.method) == ("dense", "matrix-free")
    assert free.largest == pytest.approx(dense.largest, rel=1e-9)
    assert free.smallest == pytest.approx(dense.smallest, abs=2e-6 * dense.largest)
    assert abs(free.trace - dense.trace) < 4 * free.trace_error
    assert free.effective_rank == pytest.approx(dense.effective_rank, rel=0.25)  # 400 probes
    values = np.linalg.eigvalsh(matrix.dense())
    assert dense.rank == np.linalg.matrix_rank(matrix.dense(), tol=1e-10 * values[-1])
    np.testing.assert_allclose(extreme_eigenvalues(matrix, 3, generator=generator), values[::-1][:3], rtol=1e-9)


def test_a_layer_whose_units_are_all_off_has_no_curvature():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    x, y = torch.randn(6, 5).double(), torch.randn(6, 2).double()
    found = ss.landscape.spectrum_summary(ss.curvature(model, x, y, layer="0"), method="matrix-free")
    assert (found.largest, found.smallest, found.trace, found.effective_rank) == (0.0, 0.0, 0.0, 0.0)
    assert ss.landscape.CurvatureMonitor(model, x, y, layers=("0",)).measure(0)["0/largest"] == 0.0


def test_switching_a_skip_off_leaves_the_branch():
    model, x, _, _ = case("resnet, convolution in a branch")
    skips = find_skips(model, x)
    assert [(skip.path, skip.identity) for skip in skips] == [("0", False), ("1", True)]
    plain = ss.landscape.without_skips(model, x)
    block = model[0]

    def branch(block, x):
        return torch.relu(block.second(torch.relu(block.norm(block.first(x)))))

    want = model[4](model[3](model[2](branch(model[1], branch(block, x)))))
    torch.testing.assert_close(plain(x), want)
    torch.testing.assert_close(ss.landscape.without_skips(model, x, [])(x), model(x))
    only = ss.landscape.without_skips(model, x, [skips[1].name])
    torch.testing.assert_close(only(x), model[4](model[3](model[2](branch(model[1], block(x))))))
    assert dict(plain.named_parameters()).keys() <= dict(model.named_parameters()).keys()
    with pytest.raises(ss.InputError, match="skips must be among"):
        ss.landscape.without_skips(model, x, ["nope"])


def test_a_block_with_skip_obeys_the_bound_and_without_is_singular():
    model, x, _, _ = case("resnet, convolution in a branch")
    found = ss.skip_conditioning(model, x[:3])
    with_skip, without = found["1"].with_skip, found["1"].without
    assert (with_skip.norm < 1).all()
    assert with_skip.violations == 0
    assert (without.condition > with_skip.condition).all()
    assert np.isinf(without.condition).all()


def test_bad_input_is_refused_with_what_is_possible():
    model, x, y, _ = case("convnet, convolution")
    with pytest.raises(ss.InputError, match="module path"):
        ss.curvature(model, x, y, layer="nope")
    with pytest.raises(ss.InputError, match="which has none"):
        ss.curvature(model, x, y, layer="2")
    with pytest.raises(ss.InputError, match="probes must be a whole number"):
        ss.landscape.spectrum_summary(ss.curvature(model, x, y), method="matrix-free", probes=0)
    with pytest.raises(ss.InputError, match="class numbers"):
        ss.curvature(model, x, y, loss="cross_entropy")
    with pytest.raises(ss.InputError, match="from 0 to 1"):
        ss.curvature(model, x, torch.full((6,), 9), loss="cross_entropy")
    with pytest.raises(ss.InputError, match="'cross_entropy', 'bce', 'logistic' or a function"):
        ss.curvature(model, x, y, loss="huber")
    with pytest.raises(ss.InputError, match="at least one point"):
        ss.curvature(model, x[:0], y[:0])
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        ss.curvature(model.train(), x, y)


def test_the_condition_number_of_an_indefinite_hessian_is_by_size():
    """Largest over smallest eigenvalue in size, not over the most negative one."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).eval()
    x, y = torch.randn(9, 3), torch.randint(0, 3, (9,))
    matrix = ss.curvature(net, x, y, loss="cross_entropy", kind="hessian", layer="0")
    sizes = np.abs(np.linalg.eigvalsh(matrix.dense()))
    assert np.linalg.eigvalsh(matrix.dense())[0] < 0
    assert ss.landscape.spectrum_summary(matrix).condition == pytest.approx(sizes.max() / sizes.min(), rel=1e-6)
