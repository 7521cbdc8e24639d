"""Rows in factored form give the tiles that plain rows give: on random graphs, degenerate networks and any chunks."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.program import Fold, Program, Tournament
from splinescope.tiling.engine import advance, crossing, plan, rows_factored
from splinescope.tiling.engine.rows_factored import touching_units
from tests import cases

BENDS = (torch.relu, lambda x: F.leaky_relu(x, 0.2), lambda x: x.clamp(-0.4, 0.6), torch.abs, F.relu6)


class RandomGraph(nn.Module):
    """Blocks drawn by a seed: grouped convolutions, skips, concatenations, max-pools and several kinds of bends."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.draw = np.random.default_rng(seed)
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.kinds = [str(kind) for kind in self.draw.choice(["skip", "concat", "pool", "groups", "max"], 3)]
        self.bends = [int(i) for i in self.draw.integers(0, len(BENDS), 4)]
        channels = 4
        self.layers = nn.ModuleList()
        for kind in self.kinds:
            groups = 2 if kind == "groups" else 1
            self.layers.append(nn.Conv2d(channels, channels, 3, padding=1, groups=groups))
            channels *= 2 if kind == "concat" else 1
        self.head = nn.Linear(channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = BENDS[self.bends[0]](self.stem(x))
        for kind, bend, layer in zip(self.kinds, self.bends[1:], self.layers, strict=True):
            y = BENDS[bend](layer(x))
            if kind == "skip":
                x = x + y
            elif kind == "concat":
                x = torch.cat([x, y], 1)
            elif kind == "max":
                x = torch.maximum(x, y)
            else:
                x = F.max_pool2d(y, 2, ceil_mode=True) if kind == "pool" else y
        return self.head(x.mean((2, 3)))


def assert_same_tiles(one: ss.Tiling, other: ss.Tiling) -> None:
    """Equal counts, corners and labels; vertices to 1e-12 of the coordinates."""
    np.testing.assert_array_equal(one.tiles.offsets, other.tiles.offsets)
    np.testing.assert_array_equal(one.tiles.corners, other.tiles.corners)
    np.testing.assert_array_equal(one.corner_labels, other.corner_labels)
    size = max(np.abs(one.view.domain).max(), np.ptp(one.view.domain, axis=0).max())
    np.testing.assert_allclose(one.vertices, other.vertices, rtol=0, atol=1e-12 * size)
    if one.values is not None:
        np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-11 * np.abs(one.values).max())


def assert_on_their_folds(tiling: ss.Tiling, every: int = 1) -> None:
    """At every (or each n-th) vertex, pre-activations of folds that meet there are zero to 1e-14 of the sum of terms.

    That is a hundredth of what counts as zero, and forty roundings; how far the vertex itself may be off is this over
    the fold's slope and the sine of the angle at which the folds meet, whatever form the rows have.
    """
    program, view, walls = tiling.program("its folds"), tiling.view, tiling.walls
    inner = walls.cuts >= 0
    ends, made = walls.ends[inner].reshape(-1), np.repeat(walls.cuts[inner], 2)
    with torch.no_grad():
        probes = torch.from_numpy(view.inputs(plan.probe_points(program, view.domain)))
        terms = np.concatenate(plan.make_plan(program, probes, 1.0).tolerances)
        chosen = np.arange(0, len(tiling.vertices), every)
        z = _pre_activations(program, torch.from_numpy(view.inputs(tiling.vertices[chosen])))
    here = ends % every == 0
    assert here.any()
    assert np.abs(z[ends[here] // every, made[here]] / terms[made[here]]).max() < 1e-14


def _pre_activations(program: Program, x: Tensor) -> np.ndarray:
    """`[N, cuts]` of all folds, by a plain pass."""
    values, cuts = {program.input: x}, []
    for step in program.steps:
        if isinstance(step, Tournament):
            continue
        inputs = [values[name] for name in step.inputs]
        if isinstance(step, Fold):
            cuts.append(step.cuts(*inputs).flatten(1))
        values[step.output] = step.run(*inputs)
    return torch.cat(cuts, 1).numpy()


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_have_the_same_tiles_in_both_forms(seed: int) -> None:
    model = RandomGraph(seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(3, 1, 4, 4, generator=generator, dtype=torch.float64)
    view = ss.Slice.through(*(0.4 * points), shape="triangle")
    network = ss.trace(model, points)
    plain = ss.tessellate(network, view, rows="plain")
    factored = ss.tessellate(network, view, rows="factored", threads=2, chunk_bytes=1 << 15)
    assert plain.count > 20
    assert_same_tiles(plain, ss.tessellate(network, view, rows="factored"))
    assert_same_tiles(plain, factored)
    assert_on_their_folds(plain)
    assert_on_their_folds(factored)
    line = ss.Slice.segment(points[0], points[1])
    assert_same_tiles(
        ss.tessellate(network, line, rows="plain"), ss.tessellate(network, line, rows="factored", chunk_bytes=1 << 12)
    )


def test_solid_tiles_are_the_same_in_both_forms() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)
    )
    points = torch.randn(4, 1, 4, 4, dtype=torch.float64)
    basis = (points[1:] - points[0]).reshape(3, 1, 4, 4)
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    view = ss.Slice(points[0].numpy(), basis.numpy(), corners)
    network = ss.trace(model.double(), points)
    plain = ss.tessellate(network, view, rows="plain")
    assert plain.count > 10
    assert_same_tiles(plain, ss.tessellate(network, view, rows="factored"))
    assert_same_tiles(plain, ss.tessellate(network, view, rows="factored", chunk_bytes=1 << 12))


@pytest.mark.parametrize(
    "name", ["zero bias", "duplicate units", "dead units", "corner on a fold", "scale 1e8", "max-pool", "bounded"]
)
def test_degenerate_networks_have_the_same_tiles_in_both_forms(name: str) -> None:
    network, view = ss.trace(cases.model(name), cases.view(name).inputs(cases.view(name).domain)), cases.view(name)
    factored = ss.tessellate(network, view, rows="factored")
    assert_same_tiles(cases.tiling(name), factored)
    assert_same_tiles(cases.tiling(name), ss.tessellate(network, view, rows="factored", chunk_bytes=1 << 11))
    assert_on_their_folds(factored)


@pytest.mark.parametrize(
    ("widths", "image", "work", "bending", "plane", "line"),
    [
        ([64, 64, 64], False, 1e9, 0, 0, 0),  # no wider than a basis
        ([64, 10**6, 64, 4096, 64], False, 0, 10**4, 4, 4),  # whole rows do not fit
        ([1024, 1024, 1024, 10], False, 1024**2, 50, 3, 0),
        ([1024, 1024, 1024, 10], False, 1024**2, 200, 0, 0),
        ([4096] * 4 + [64], True, 1e7, 500, 4, 4),  # of images, basis rows are windows
        ([4704, 1600, 120, 84], True, 3e6, 200, 2, 0),  # not handed over while rows are wide
    ],
)
def test_networks_are_factored_by_themselves_where_few_units_bend_up_to_the_last_fold_that_is_not_narrow(
    widths: list[int], image: bool, work: float, bending: float, plane: int, line: int
) -> None:
    shape = (1, 1, 1) if image else (1,)
    folds = [SimpleNamespace(site=SimpleNamespace(shape=shape)) for _ in widths]
    assert plan.factored_folds(folds, widths, "auto", 2, work, bending) == plane
    assert plan.factored_folds(folds, widths, "auto", 1, work, bending) == line
    assert plan.factored_folds(folds, widths, "plain", 2, work, bending) == 0
    assert plan.factored_folds(folds, widths, "factored", 1, work, bending) == len(widths)


@pytest.mark.parametrize(("half", "factored"), [(0.01, 3), (1.0, 0)])
def test_a_wide_network_is_factored_on_a_small_slice_and_not_on_a_large_one(half: float, factored: int) -> None:
    torch.manual_seed(0)
    layers = (nn.Linear(2, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
    program = ss.trace(nn.Sequential(*layers, nn.Linear(1024, 2)), torch.zeros(1, 2)).program()
    probes = torch.from_numpy(plan.probe_points(program, half * np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])))
    assert plan.make_plan(program, probes, 1e-12).factored == factored


def test_no_bit_depends_on_how_many_rows_run_together_behind_the_hand_over_to_plain_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    layers = (nn.Linear(2, 400), nn.ReLU(), nn.Linear(400, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU())
    net, view = nn.Sequential(*layers, nn.Linear(160, 3)), ss.Slice.axes([0.0, 0.0], (0, 1), -0.2, 0.2)
    monkeypatch.setattr(plan, "_LEAST", 400)
    monkeypatch.setattr(plan, "_TOO_WIDE", 400)
    tilings = []
    for rows in (8, 512):
        monkeypatch.setattr(plan, "_block", lambda width, rows=rows: rows)
        network = ss.trace(copy.deepcopy(net), torch.zeros(1, 2))
        tilings.append(ss.tessellate(network, view, threads=1))
    assert len(tilings[0].vertices) > 256  # several blocks
    np.testing.assert_array_equal(tilings[0].vertices, tilings[1].vertices)
    np.testing.assert_array_equal(tilings[0].values, tilings[1].values)


def test_units_that_keep_their_sign_are_never_worked_out_and_no_other_is_missed() -> None:
    generator = np.random.default_rng(0)
    coefficients = np.concatenate([np.ones((50, 1)), generator.uniform(-0.1, 0.1, (50, 3))], 1)
    basis = generator.normal(size=(4, 2000))
    z = coefficients @ basis
    found, positive, _ = touching_units(coefficients, basis, np.zeros(2000))
    both = np.flatnonzero((z.max(0) > 0) & (z.min(0) < 0))
    assert set(both) <= set(found)
    assert len(found) < 500
    rest = np.setdiff1d(np.arange(2000), found)
    np.testing.assert_array_equal(positive[rest], z[0, rest] > 0)


def test_a_sum_that_cancels_to_rounding_noise_counts_as_zero() -> None:
    """The bound r eps |C| |B| is above the noise of terms that cancel, whatever the tolerance that is given."""
    generator = np.random.default_rng(1)
    large = generator.normal(size=(30, 500)) * 1e6
    coefficients = np.concatenate([np.ones((40, 30)), generator.uniform(1.0, 1.0 + 1e-15, (40, 30))], 1)
    noise = coefficients @ np.concatenate([large, -large])
    _, _, limits = touching_units(coefficients, np.concatenate([large, -large]), np.zeros(500))
    assert np.abs(noise).max() > 0
    assert len(limits) == 500
    assert (np.abs(noise).max(0) <= limits).all()


def test_without_a_tolerance_the_rounding_bound_alone_keeps_slivers_out() -> None:
    """All folds of a network without biases meet in one point, where every pre-activation is noise.

    The point is not the center of the square: there it would be exactly zero.
    """
    model, view = cases.model("zero bias"), ss.Slice.axes([0.1, -0.2], (0, 1), -1.0, 2.7)
    true = ss.tessellate(model, view).count
    assert ss.tessellate(model, view, rows="factored", rtol=0.0).count == true
    assert ss.tessellate(model, view, rows="plain", rtol=0.0).count > true


def test_a_basis_keeps_to_the_memory_of_its_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = cases.mlp(1, 128, 128, 128, 1).double()
    crossed, row = advance.crossed_factored, 8 * 128
    for chunk_bytes in (1 << 11, 1 << 12):
        seen: list[tuple[int, int]] = []

        def watched(*arguments, seen=seen):
            rows = crossed(*arguments)
            seen.append((arguments[2].basis.bytes, rows.basis.bytes))
            return rows

        monkeypatch.setattr(advance, "crossed_factored", watched)
        ss.tessellate(model, ss.Slice.segment([-4.0], [4.0]), rows="factored", chunk_bytes=chunk_bytes, threads=1)
        before, after = np.array(seen).T
        most = advance._BASIS_SHARE * chunk_bytes
        assert (after <= np.maximum(most, before + rows_factored._FEWEST_NEW * row)).all()
        assert after.max() > 0.5 * most, "and uses it"


def test_rows_that_start_at_a_wide_fold_are_made_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-hot rows of a million units, for all units that bend, would take gigabytes; their images may be narrow."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    whole, made, units = ss.tessellate(model, view, rows="factored"), [], crossing.units

    def watched(elements, amounts, shape):
        made.append(8 * len(elements) * shape[0])
        return units(elements, amounts, shape)

    monkeypatch.setattr(crossing, "units", watched)
    monkeypatch.setattr(crossing, "_BORN_BYTES", 7 * 8 * 60)
    assert_same_tiles(whole, ss.tessellate(model, view, rows="factored"))
    assert max(made) == 7 * 8 * 60


def test_rows_of_a_part_are_taken_about_its_own_center_and_stay_as_they_were() -> None:
    """Coefficients of a part are of the part's size, however far from the first center: so is what is rounded."""
    torch.manual_seed(0)
    network = ss.trace(
        nn.Sequential(nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, 1)).double(), torch.zeros(1, 2).double()
    )
    program, view = network.program(), ss.Slice.axes([0.0, 0.0], (0, 1), -100.0, 100.0)
    with torch.no_grad():
        made = plan.make_plan(program, torch.from_numpy(view.inputs(view.domain)), 1e-12, "factored")
        first = np.concatenate([np.zeros((1, 2)), np.eye(2)])
        near = np.array([70.0, -40.0]) + np.random.default_rng(0).uniform(-1e-3, 1e-3, (20, 2))
        rows = rows_factored.first_factored(
            made, np.zeros(2), np.concatenate([view.domain, near]), first, program.input
        )
        part = rows.some(np.arange(len(view.domain), len(rows)))
        reduced = part.reduced()
    assert np.abs(part.coefficients[:, 1:]).max() > 60.0
    assert np.abs(reduced.coefficients[:, 1:]).max() <= 2e-3
    np.testing.assert_allclose(reduced.center + reduced.coefficients[:, 1:], near, rtol=1e-15)
    segment = made.segments[0]
    for key, values in part.expanded(segment).items():
        np.testing.assert_allclose(reduced.expanded(segment)[key], values, rtol=0, atol=1e-14 * np.abs(values).max())


def test_an_unknown_kind_of_rows_is_refused() -> None:
    with pytest.raises(ss.InputError, match=r"rows must be one of .*did you mean .plain."):
        ss.tessellate(cases.model("one layer"), cases.view("one layer"), rows="plan")  # type: ignore[arg-type]


def test_products_of_factored_rows_run_on_the_threads_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    product = rows_factored.product

    def watched(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append(torch.get_num_threads())
        return product(a, b)

    monkeypatch.setattr(rows_factored, "product", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ss.tessellate(cases.model("two layers"), cases.view("two layers"), rows="factored", threads=1)
    finally:
        torch.set_num_threads(before)
    assert seen
    assert set(seen) == {1}
