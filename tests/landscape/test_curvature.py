"""Curvature products, spectra, conditioning and skips against dense references and known numbers."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator
from torch import nn
from torch.func import functional_call, hessian

import splinescope as ss
from splinescope.landscape.conditioning import (
    Conditioning,
    condition_number,
    layer_conditioning,
    random_conditioning,
    skip_bound,
)
from splinescope.landscape.hessian import curvature_factor, downstream_jacobians
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
def test_the_hessian_of_one_layer_is_its_gauss_newton_matrix_and_a_product_of_jacobians(name):
    model, x, y, layer = case(name)
    ggn = ss.curvature(model, x, y, layer=layer).dense()
    factor = curvature_factor(model, x, y, layer=layer)
    np.testing.assert_allclose(ggn, factor.T @ factor, atol=1e-12)
    np.testing.assert_allclose(ggn, ss.curvature(model, x, y, layer=layer, kind="hessian").dense(), atol=1e-12)


def test_the_factor_of_a_linear_layer_is_m_kron_z():
    model, x, y, _ = case("mlp, middle layer")
    factor = curvature_factor(model, x, y, layer="2").reshape(len(x), 2, -1)
    M = downstream_jacobians(model, x, "2")
    z = model[1](model[0](x)).detach().numpy()
    expected = np.concatenate([np.einsum("nch,nk->nchk", M, z).reshape(len(x), 2, -1), M], 2) * np.sqrt(2 / len(x))
    np.testing.assert_allclose(factor, expected, atol=1e-14)


def test_cross_entropy_gives_the_generalized_gauss_newton_matrix():
    model, x, _, _ = case("convnet, convolution")
    y = torch.tensor([0, 1, 1, 0, 1, 0])
    ggn = ss.curvature(model, x, y, loss="cross_entropy", batch_size=4)
    factor = curvature_factor(model, x, y, loss="cross_entropy")
    np.testing.assert_allclose(ggn.dense(), factor.T @ factor, atol=1e-13)
    full = ss.curvature(model, x, y, loss="cross_entropy", kind="hessian")
    np.testing.assert_allclose(full.dense(), dense_hessian(model, x, y, full.names, "cross_entropy"), atol=1e-12)


def test_a_loss_of_your_own_is_taken_as_a_mean():
    model, x, y, _ = case("mlp, first layer")
    mine = ss.curvature(model, x, y, loss=lambda f, t: (f - t).square().sum(1).mean(), batch_size=4)
    np.testing.assert_allclose(mine.dense(), ss.curvature(model, x, y).dense(), atol=1e-13)


@pytest.mark.parametrize("kind", ["ggn", "hessian"])
def test_products_agree_with_curvlinops(kind):
    curvlinops = pytest.importorskip("curvlinops", reason="curvlinops is the oracle of this test only")
    model, x, y, _ = case("mlp, first layer")
    operator = {"ggn": curvlinops.GGNLinearOperator, "hessian": curvlinops.HessianLinearOperator}[kind]
    theirs = operator(model, nn.MSELoss(reduction="mean"), list(model.parameters()), [(x, y)])
    v = np.random.default_rng(0).normal(size=sum(p.numel() for p in model.parameters()))
    want = (theirs @ torch.from_numpy(v)).detach().numpy() * 2  # theirs divides by the number of outputs, 2, as well
    np.testing.assert_allclose(ss.curvature(model, x, y, kind=kind) @ v, want, atol=1e-12)


def test_matrix_free_spectrum_is_the_dense_one():
    model, x, y, _ = case("mlp, first layer", points=40)
    matrix = ss.curvature(model, x, y)
    generator = torch.Generator().manual_seed(0)
    dense = ss.landscape.spectrum_summary(matrix)
    free = ss.landscape.spectrum_summary(matrix, method="matrix-free", probes=400, generator=generator)
    assert (dense.method, free.method) == ("factor", "matrix-free")
    assert free.largest == pytest.approx(dense.largest, rel=1e-9)
    assert free.smallest == pytest.approx(dense.smallest, abs=2e-6 * dense.largest)
    assert abs(free.trace - dense.trace) < 4 * free.trace_error
    assert free.effective_rank == pytest.approx(dense.effective_rank, rel=0.25)  # 400 probes
    values = np.linalg.eigvalsh(matrix.dense())
    assert dense.rank == np.linalg.matrix_rank(matrix.dense(), tol=1e-10 * values[-1])
    np.testing.assert_allclose(extreme_eigenvalues(matrix, 3, generator=generator), values[::-1][:3], rtol=1e-9)


def test_lanczos_density_has_the_moments_of_the_spectrum():
    model, x, y, _ = case("mlp, first layer", points=40)
    matrix = ss.curvature(model, x, y)
    values = np.linalg.eigvalsh(matrix.dense())
    density = ss.landscape.spectral_density(
        aslinearoperator(matrix.dense()), steps=20, probes=60, generator=torch.Generator().manual_seed(0)
    )
    assert density.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert density.nodes[-1] <= values[-1] * (1 + 1e-9)
    for power in (1, 2):  # 60 probes of 71 numbers: a few per cent
        assert (density.weights * density.nodes**power).sum() == pytest.approx((values**power).mean(), rel=0.15)
    grid = np.linspace(-1, values[-1] + 1, 2000)
    assert np.trapezoid(density.on(grid, 0.1), grid) == pytest.approx(1.0, abs=1e-3)


def test_skip_bound_holds_and_is_attained():
    equal = layer_conditioning(np.diag([0.5, -0.5]), np.ones(2), skip=True)
    assert float(equal.condition) == pytest.approx(float(equal.bound)) == 3.0
    generator = torch.Generator().manual_seed(0)
    for activation in ("relu", "leaky", "abs"):
        drawn = random_conditioning(20, 0.4, activation, skip=True, draws=50, generator=generator)
        assert drawn.violations == 0
        assert np.isfinite(drawn.bound).all()
        deep = random_conditioning(20, 0.2, activation, skip=True, depth=3, draws=50, generator=generator)
        assert deep.violations == 0


def test_a_layer_whose_units_are_all_off_has_no_curvature():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    x, y = torch.randn(6, 5).double(), torch.randn(6, 2).double()
    found = ss.landscape.spectrum_summary(ss.curvature(model, x, y, layer="0"), method="matrix-free")
    assert (found.largest, found.smallest, found.trace, found.effective_rank) == (0.0, 0.0, 0.0, 0.0)
    assert ss.landscape.CurvatureMonitor(model, x, y, layers=("0",)).measure(0)["0/largest"] == 0.0


def test_conditioning_of_what_does_not_fit_is_refused():
    with pytest.raises(ss.InputError, match="draws must be a whole number"):
        random_conditioning(6, 0.4, skip=True, draws=2.5)
    with pytest.raises(ss.InputError, match="one number per row"):
        layer_conditioning(torch.ones(2, 3), torch.ones(3), skip=True)


def test_a_deep_stack_that_is_singular_to_float64_breaks_no_bound():
    generator = torch.Generator().manual_seed(0)
    deep = random_conditioning(32, 1.4, "leaky", skip=False, depth=12, draws=20, generator=generator)
    assert np.isinf(deep.condition).any()  # true condition numbers beyond 1e15
    assert np.isfinite(deep.bound).all()
    assert deep.violations == 0
    broken = Conditioning(np.array([3.1, np.inf, np.inf]), np.zeros(3), np.array([3.0, 1e6, np.inf]))
    assert broken.violations == 2


def test_no_skip_bound_holds_without_a_small_branch():
    for e in (1e-2, 1e-6):
        near = layer_conditioning(np.diag([-(1 - e), 0.0, 0.0]), np.ones(3), skip=True)
        assert float(near.condition) == pytest.approx(1 / e, rel=1e-9)
    assert skip_bound(1.0) == np.inf


def test_a_relu_layer_without_skip_is_singular_and_a_leaky_one_costs_its_slope():
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).double().numpy()
    off = np.ones(8)
    off[3] = 0.0
    assert layer_conditioning(weight, off, skip=False).condition == np.inf
    leaky = layer_conditioning(weight, np.where(off == 0, 0.1, 1.0), skip=False)
    assert leaky.condition <= leaky.bound
    assert float(leaky.bound) == pytest.approx(10 * float(condition_number(weight)))


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
    only = ss.landscape.without_skips(model, x, [skips[1]])
    torch.testing.assert_close(only(x), model[4](model[3](model[2](branch(model[1], block(x))))))
    assert dict(plain.named_parameters()).keys() <= dict(model.named_parameters()).keys()
    with pytest.raises(ss.InputError, match="skips must be among"):
        ss.landscape.without_skips(model, x, ["nope"])


def test_a_block_with_skip_obeys_the_bound_and_without_is_singular():
    model, x, _, _ = case("resnet, convolution in a branch")
    found = ss.skip_conditioning(model, x[:3])
    skip = find_skips(model, x)[1]
    with_skip, without = found[skip].with_skip, found[skip.name].without
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


def test_the_model_itself_is_a_layer_with_all_its_parameters():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double().eval()
    x, y = torch.randn(7, 3).double(), torch.randn(7, 2).double()
    itself = curvature_factor(model, x, y, layer="")
    np.testing.assert_array_equal(itself, curvature_factor(model, x, y))
    assert ss.landscape.break_distance(model, x, "").radius == float("inf")
