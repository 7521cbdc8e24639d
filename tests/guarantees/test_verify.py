"""Verdicts against independent references: dense samples and linear programs on plain tilings."""

from itertools import pairwise
from math import factorial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property, verify
from splinescope.guarantees.forms import with_forms
from splinescope.guarantees.property import Clause
from splinescope.guarantees.search import Search
from splinescope.guarantees.verdict import Collected
from splinescope.tiling.engine.time_limit import Clock


def mlp(*sizes: int, seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


class Skip(nn.Module):
    """A residual network with a clamp and a maximum: folds that are no plain ReLU."""

    def __init__(self, inputs: int = 2) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.a, self.b, self.c = nn.Linear(inputs, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.leaky_relu(self.a(x), 0.2)
        h = h + self.b(h).clamp(-0.3, 0.4)
        y = self.c(h)
        return torch.maximum(y, y.flip(1) - 0.2)


def duplicated() -> nn.Sequential:
    net = mlp(2, 8, 6, 2, seed=3)
    with torch.no_grad():
        net[0].weight[4:], net[0].bias[4:] = net[0].weight[:4], net[0].bias[:4]
    return net


NETS = {
    "plain": lambda: mlp(2, 8, 6, 2, seed=1),
    "three inputs": lambda: mlp(3, 6, 5, 2, seed=2),
    "zero bias": lambda: mlp(2, 8, 6, 2, seed=3, bias=False),
    "duplicate units": duplicated,
    "skips, clamps, maxima": lambda: Skip().double(),
    "no hidden layer": lambda: mlp(2, 2, seed=5),
}


def margin_by_programs(net: nn.Module, clauses: list[tuple[np.ndarray, np.ndarray]], view: ss.Slice) -> float:
    """min over x and clauses of max_i (rows_i y - ends_i): a linear program on every tile of a plain tiling."""
    tiling = ss.tessellate(net, view)
    values = tiling.values
    assert values is not None
    least = np.inf
    for i in range(tiling.count):
        corners = tiling.tiles.corners[tiling.tiles.offsets[i] : tiling.tiles.offsets[i + 1]]
        for rows, ends in clauses:
            forms = values[corners] @ rows.T - ends  # x is a mixture of corners; minimize s >= each form
            n = len(corners)
            found = linprog(
                np.append(np.zeros(n), 1.0), np.column_stack([forms.T, -np.ones(len(ends))]), np.zeros(len(ends)),
                np.append(np.ones(n), 0.0)[None], [1.0], bounds=[(0, None)] * n + [(None, None)],
            )  # fmt: skip
            least = min(least, found.fun)
    return least


def made(clauses: list[tuple[np.ndarray, np.ndarray]], inputs: int) -> Property:
    return Property(
        tuple(Clause(r, np.zeros((len(r), inputs)), e, np.zeros(len(r), bool)) for r, e in clauses), name="drawn"
    )


@pytest.mark.parametrize("name", NETS)
def test_verdict_and_margin_are_those_of_linear_programs(name: str) -> None:
    net = NETS[name]()
    inputs = 3 if name == "three inputs" else 2
    view = ss.Slice.axes(np.zeros(inputs), tuple(range(inputs)), -1.0, 1.5)
    rng = np.random.default_rng(7)
    for k in range(4):
        clauses = [(rng.normal(size=(1 + k % 3, 2)), rng.normal(-0.3, 0.4, 1 + k % 3)) for _ in range(1 + k % 2)]
        expected = margin_by_programs(net, clauses, view)
        for shift in (expected - 0.05, expected + 0.05):  # once it holds by .05, once it does not
            moved = [(rows, ends + shift) for rows, ends in clauses]
            verdict = verify(net, made(moved, inputs), over=view)
            assert verdict.holds is (shift < expected)
            assert verdict.rigorous
            if verdict.holds:
                assert verdict.margin == pytest.approx(0.05, abs=1e-9)
            else:
                assert verdict.witness is not None
                y = net(torch.from_numpy(verdict.witness.x[None]))[0].detach().numpy()
                assert any((rows @ y <= ends + 1e-12).all() for rows, ends in moved)
                assert verdict.witness.confirmed


KINDS = ("plain", "zero bias", "duplicate units", "a property that only touches")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", range(1, 6))
def test_volumes_of_unsafe_sets_are_within_monte_carlo_intervals(kind: str, inputs: int) -> None:
    """40 cases, a million points each; one in five thousand would be out by chance (3.7 deviations)."""
    for seed in range(2):
        net = mlp(inputs, 6, 5, 2, seed=seed, bias=kind != "zero bias")
        if kind == "duplicate units":
            with torch.no_grad():
                net[0].weight[3:], net[0].bias[3:] = net[0].weight[:3], net[0].bias[:3]
        rng = np.random.default_rng(seed)
        points = rng.uniform(-1.0, 1.0, (1_000_000, inputs))
        y = _fast(net, points)
        rows = rng.normal(size=(2, 2))
        ends = np.quantile(y[:1000] @ rows.T, 0.5, axis=0)
        if kind == "a property that only touches":  # both rows together are one hyperplane: no volume
            rows, ends = np.stack([rows[0], -rows[0]]), np.array([ends[0], -ends[0]])
        clause = Clause(rows, np.zeros((2, inputs)), ends, np.zeros(2, bool))
        unsafe = verify(net, Property((clause,)), (-np.ones(inputs), np.ones(inputs)), complete=True).unsafe
        assert unsafe is not None
        hits = (y @ rows.T <= ends).all(1).mean()
        assert abs(hits - unsafe.share) <= 3.7 * np.sqrt(hits * (1 - hits) / len(points)) + 1e-9


def _fast(net: nn.Sequential, points: np.ndarray) -> np.ndarray:
    """The network's outputs by float32 in blocks that stay in the cache: rounding moves no share by 1e-6."""
    single = nn.Sequential(*net).float()
    with torch.no_grad():
        found = torch.cat([single(block) for block in torch.from_numpy(points).float().split(16_384)])
    net.double()
    return found.numpy().astype(np.float64)


@pytest.mark.parametrize("seed", range(8))
def test_pruning_changes_no_verdict_and_no_volume(seed: int) -> None:
    inputs = 2 + seed % 3
    net = mlp(inputs, 7, 6, 2, seed=seed)
    rng = np.random.default_rng(seed)
    clause = Clause(rng.normal(size=(2, 2)), np.zeros((2, inputs)), rng.normal(0.0, 0.2, 2), np.zeros(2, bool))
    view = ss.Slice.axes(np.zeros(inputs), tuple(range(inputs)), -1.0, 1.0)
    program = ss.trace(net, torch.zeros(2, inputs, dtype=torch.float64)).program()
    lowest, cells = [], []
    for prune in (True, False):
        search = Search(with_forms(program, [clause]), view, Clock(None), prune=prune, stop_below=False)
        search.run()
        lowest.append(search.lowest[0])
        cells.append(search.cells)
    assert lowest[0] == pytest.approx(lowest[1], abs=1e-11)
    assert cells[0] <= cells[1]
    volumes = []
    for prune in (True, False):
        collected = Collected(view, np.full(1, 1e-12), clause.strict[:1])
        formed = with_forms(program, [clause], decided=True)
        Search(formed, view, Clock(None), prune=prune, stop_below=False, exact=False, take=collected.take).run()
        volumes.append(sum(collected.volumes))
    assert volumes[0] == pytest.approx(volumes[1], rel=1e-9, abs=1e-15)


def boxed(low: list[float], high: list[float]) -> Property:
    """Violated by every input of a box."""
    eye, size = np.eye(len(low)), 2 * len(low)
    rows, ends = np.concatenate([-eye, eye]), np.concatenate([-np.array(low), high])
    return Property((Clause(np.zeros((size, 1)), rows, ends, np.zeros(size, bool)),))


def test_boxes_that_overlap_count_once_and_boxes_apart_are_added() -> None:
    net = mlp(2, 4, 1)
    for corner, volume, parts in ((0.5, 1.75, 1), (1.0, 2.0, 2), (2.0, 2.0, 2)):  # unit squares at 0 and at the corner
        both = boxed([0.0, 0.0], [1.0, 1.0]) & boxed([corner] * 2, [corner + 1] * 2)
        unsafe = verify(net, both, complete=True).unsafe
        assert unsafe is not None
        assert unsafe.volume == pytest.approx(volume, rel=1e-12)
        assert unsafe.share == pytest.approx(1.0, rel=1e-12)
        assert len(unsafe.view) == parts
    line = boxed([0.5, 0.0], [0.5, 1.0]) & boxed([0.0, 0.0], [1.0, 1.0])
    found = verify(net, line, complete=True).unsafe
    assert found is not None
    assert found.volume == pytest.approx(1.0)  # a segment has no area
    assert found.share == pytest.approx(1.0)


def test_strict_ends_are_no_inputs_and_equality_is_unsafe_unless_strict(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.zero_()
    file = tmp_path / "p.vnnlib"
    for low, high, holds in (("> X_0 0", "<= X_0 0", True), ("> X_0 0", "< X_0 1", False)):
        file.write_text(
            f"(declare-const X_0 Real) (declare-const Y_0 Real) (assert ({low})) (assert ({high})) (assert (<= Y_0 9))"
        )
        verdict = verify(net, file)
        assert verdict.holds is holds
    assert verdict.witness is not None
    assert 0 < verdict.witness.x[0] < 1
    for strict, volume in ((False, 1.0), (True, 0.0)):  # relu(x) is 0 for all x <= 0
        for level in (0.0, 0.9):  # with a violation besides, above that level
            touched = Property.never([1.0], 0.0, strict=strict) & Property.between(0, high=1.0 - level)
            found = verify(net, touched, (-1.0, 1.0), complete=True)
            assert found.unsafe is not None
            assert found.unsafe.volume == pytest.approx(volume + level)
            assert found.unsafe.certainty == "bound"  # rounding decides about half of the set
            assert "0 and 0" in found.reason


def test_an_equality_is_met_where_it_is_passed_and_a_tie_where_it_is_only_touched(tmp_path: Path) -> None:
    """By the value that a continuous network has between two others; other rows must hold in between."""
    net, file = mlp(2, 8, 2, seed=0), tmp_path / "p.vnnlib"
    box = " ".join(f"(assert (<= -1 X_{i} 1))" for i in range(2))
    head = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1")) + box
    span = ss.output_range(net, (-1.0, 1.0))
    (low, other), (high, top) = span.low.tolist(), span.high.tolist()
    middle = (low + high) / 2
    for asked, holds in (
        (f"(= Y_0 {middle})", False), (f"(= Y_0 {high + 1e-6})", True), (f"(= Y_0 {high - 1e-6})", False),
        (f"(= Y_0 {high})", None), (f"(and (= Y_0 {middle}) (>= Y_1 {other + 0.02}))", False),
        (f"(and (= Y_0 {middle}) (>= Y_1 {top + 1e-6}))", True), ("(= (+ Y_0 X_0) 0.1)", False),
        (f"(and (= X_0 X_1) (<= Y_0 {middle}))", False), (f"(and (= (+ X_0 X_1) 0.3) (<= Y_0 {low - 1e-6}))", True),
    ):  # fmt: skip
        file.write_text(f"{head}(assert {asked})")
        verdict = verify(net, file)
        assert verdict.holds is holds, asked
        assert verdict.rigorous is (holds is not None)
        if verdict.witness is not None:
            assert abs(verdict.witness.excess) < 1e-14
            assert verdict.witness.confirmed is None


def test_ends_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ss.InputError, match="numbers"):
        Property.between(0, "a", 1.0)  # type: ignore[arg-type]
    with pytest.raises(ss.InputError, match="property must be a Property or"):
        verify(mlp(2, 8, 1), 0)  # type: ignore[arg-type]
    with pytest.raises(ss.InputError, match="ends must be"):
        Property.never([[1.0]], [0.0, 1.0])


def test_inputs_may_stand_in_a_constraint() -> None:
    net = mlp(2, 8, 1, seed=2)
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -1.0, 1.0)
    tiling = ss.tessellate(net, view)
    assert tiling.values is not None
    least = float((tiling.values[:, 0] + tiling.vertices @ [2.0, -1.0]).min())
    for shift in (-1e-3, 1e-3):
        asked = Property.never([[1.0]], [least + shift], x_rows=[[2.0, -1.0]])
        assert verify(net, asked, view).holds is (shift < 0)


def needle(center: np.ndarray, width: float, depth: float) -> nn.Sequential:
    """1 - (1 + depth) relu(1 - |x - center|_1 / width): a dip, 1 elsewhere."""
    d = len(center)
    net = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    at, eye = torch.from_numpy(center), torch.eye(d, dtype=torch.float64)
    given = (torch.cat([eye, -eye]) / width, torch.cat([-at, at]) / width, -torch.ones(1, 2 * d), torch.ones(1),
             torch.tensor([[-1.0 - depth]], dtype=torch.float64), torch.ones(1))  # fmt: skip
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), given, strict=True):
            parameter.copy_(value)
    return net


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_a_violation_in_a_billionth_of_the_volume_is_found(d: int) -> None:
    """Where the dip is below zero: a cross-polytope of radius r = width (1 - 1 / 1.2) and volume (2 r)^d / d!."""
    radius = (1e-9 * factorial(d)) ** (1 / d) / 2
    net = needle(np.random.default_rng(d).uniform(0.2, 0.8, d), radius / (1 - 1 / 1.2), 0.2)
    found = verify(net, Property.never([[1.0]], [0.0]), (0.0, 1.0))
    assert found.holds is False
    assert found.witness is not None
    assert found.witness.confirmed
    whole = verify(net, Property.never([[1.0]], [0.0]), (0.0, 1.0), complete=True)
    assert whole.unsafe is not None
    assert whole.unsafe.share == pytest.approx(1e-9, rel=1e-6)
    assert whole.margin == pytest.approx(-0.2, abs=1e-9 + 1e-15 / radius)  # as far as its biases are off
    assert verify(net, Property.never([[1.0]], [-0.201]), (0.0, 1.0)).holds is True


def test_sets_that_say_nothing_are_told() -> None:
    net = mlp(2, 4, 1)
    verdict = verify(net, boxed([1.0, 0.0], [0.0, 1.0]))
    assert verdict.holds is True
    assert verdict.margin == np.inf
    assert "no input" in verdict.reason
    with pytest.raises(ss.InputError, match="empty"):
        verify(net, Property.between(0, 0.0), ([0.0, 1.0], [1.0, 0.0]))
    with pytest.raises(ss.InputError, match="lower and an upper bound"):
        verify(net, Property.between(0, 0.0))
    with pytest.raises(ss.InputError, match="at most 8 free inputs, got 9"):
        verify(mlp(9, 4, 1), Property.between(0, 0.0), (0.0, 1.0))
    with pytest.raises(ss.InputError, match="finite"):
        verify(net, Property.between(0, 0.0), ([0.0, np.nan], [1.0, 1.0]))
    strange = Clause(np.zeros((1, 1)), np.zeros((1, 3)), np.zeros(1), np.zeros(1, bool))
    with pytest.raises(ss.InputError, match="about 3 inputs"):
        verify(ss.trace(net, torch.zeros(2, 2).double()), Property((strange,)), (0.0, 1.0))
    with pytest.raises(ss.UnsupportedModelError):
        verify(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), Property.between(0, 0.0), (0.0, 1.0))


def test_a_single_point_is_a_set() -> None:
    net = mlp(2, 4, 1, seed=6)
    y = net(torch.tensor([[0.3, -0.2]], dtype=torch.float64)).item()
    point = ([0.3, -0.2], [0.3, -0.2])
    assert verify(net, Property.between(0, y - 1e-9, y + 1e-9), point).holds is True
    assert verify(net, Property.between(0, y + 1e-9), point).holds is False
    assert verify(net, Property.never([[1.0]], [y]), point).holds is None


def test_limits_leave_it_undecided() -> None:
    net = mlp(4, 20, 20, 20, 2, seed=1)
    points = torch.rand(4096, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    asked = Property.between(0, net(points)[:, 0].min().item() - 0.05)
    verdict = verify(net, asked, (-1.0, 1.0), max_tiles=5)
    assert verdict.holds is None
    assert "max_tiles" in verdict.reason
    verdict = verify(net, asked, (-1.0, 1.0), time_limit=1e-6)
    assert verdict.holds is None
    assert "time_limit" in verdict.reason


def test_monotone_is_about_the_least_slope() -> None:
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():  # |x| + x / 2
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.5, 0.5]]))
        net[2].bias.zero_()
    rises = Property.monotone(0)
    verdict = verify(net, rises, ([0.25], [1.0]))
    assert verdict.holds is True
    assert verdict.margin == pytest.approx(1.5)
    verdict = verify(net, rises, ([-1.0], [1.0]))
    assert verdict.holds is False
    assert verdict.witness is not None
    assert verdict.witness.x[0] < 0
    assert verify(net, Property.monotone(0, increasing=False), ([-1.0], [-0.5])).holds is True


def test_a_file_and_a_module_in_float32_are_run_themselves() -> None:
    net = mlp(2, 8, 1, seed=9).float()
    verdict = verify(net, Property.between(0, 100.0), (-0.1, 0.1))
    assert verdict.holds is False
    assert verdict.witness is not None
    assert verdict.witness.seen_by == "torch.float32"
    assert verdict.witness.confirmed is True
    x = verdict.witness.x  # what is run is in the set: the float32 nearest to 0.1 is not
    assert np.array_equal(x, x.astype(np.float32))
    assert 0.0999 < np.abs(x).max() <= 0.1


def test_a_hundred_classes_are_decided_although_a_tiling_keeps_fewer_outputs() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 100)).double()
    low, high = np.full(2, -0.1), np.full(2, 0.1)
    tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), low, high))
    values = net(torch.from_numpy(tiling.view.inputs(tiling.vertices))).detach().numpy()
    for wins in np.unique(values.argmax(1)):
        least = (values[:, [wins]] - np.delete(values, wins, 1)).min()  # an affine piece has its extremes at vertices
        verdict = verify(net, Property.class_wins(int(wins)), (low, high))
        assert verdict.holds is bool(least > 0)


@pytest.mark.parametrize("ending", [nn.Sigmoid(), nn.Tanh(), nn.Softmax(1), nn.LogSoftmax(1)])
def test_endings_bend_outputs_so_that_only_comparisons_of_two_are_decided(ending: nn.Module) -> None:
    plain, asked = mlp(2, 6, 3, seed=1), Property.between(0, -2.0, 2.0)
    model, over = nn.Sequential(plain, ending), (-1.0, 1.0)
    with pytest.raises(ss.UnsupportedModelError, match="ends in"):
        verify(model, asked, over)
    for winner in range(3):
        found, expected = (verify(m, Property.class_wins(winner), over) for m in (model, plain))
        assert found.holds is expected.holds
        assert found.witness is None or found.witness.confirmed
    same = ss.trace(model, torch.zeros(1, 2, dtype=torch.float64))  # ends before it
    assert verify(same, asked, over).margin == verify(plain, asked, over).margin
    if isinstance(ending, (nn.Sigmoid, nn.Tanh)):
        assert verify(model, Property.monotone(0), over).holds is verify(plain, Property.monotone(0), over).holds
    else:
        with pytest.raises(ss.UnsupportedModelError, match="ends in"):
            verify(model, Property.monotone(0), over)


def test_a_network_that_returns_its_class_is_verified_without_running_it_on_the_witness() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = mlp(2, 6, 3, seed=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scores(x).argmax(1)

    found = [verify(Classifier(), Property.class_wins(c), (-1.0, 1.0)) for c in range(3)]
    assert [v.holds for v in found].count(False) >= 2
    assert all(v.witness.confirmed is None for v in found if v.witness is not None)
