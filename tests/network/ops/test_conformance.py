"""Every registered rule against the real op, alone and inside a network."""

import functools
from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.ops.call import op_name
from splinescope.network.ops.registry import OPERATIONS
from splinescope.network.program import Fold, Program, Tournament
from splinescope.network.reading import export
from splinescope.network.watching.sites import sites_of

from .operations import AFFINE, FOLDS, WRITES

ALL = {**AFFINE, **FOLDS}
SHAPES = sorted({shape for _, shape in ALL.values()})


class Together(nn.Module):
    """Many operations on one input, side by side: one export serves them all."""

    def __init__(self, operations: dict[str, Callable[[Tensor], Tensor]], inside: bool) -> None:
        super().__init__()
        self.operations = nn.ModuleDict({label: Named(operation) for label, operation in operations.items()})
        self.inside = inside

    def results(self, x: Tensor) -> dict[str, Tensor]:
        """Each operation alone, or between folds."""
        given = torch.relu(0.7 * x + 0.1) - x if self.inside else x
        outputs = {label: op(given).reshape(x.shape[0], -1) for label, op in self.operations.items()}
        return {label: torch.relu(y) - 0.3 * y if self.inside else y for label, y in outputs.items()}

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(list(self.results(x).values()), 1)


class Named(nn.Module):
    """A function or module under a path of its own."""

    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        return self.operation(x)


@pytest.fixture(autouse=True)
def _float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


FORMS = ("alone", "inside", "decomposed")
"""Each operation as the model's only one; between folds; and as torch rewrites graphs with writes into views."""


@functools.cache
def traced(shape: tuple[int, ...], form: str) -> tuple[Together, ss.SplineNetwork, Tensor]:
    """All operations of the table that take inputs of `shape`, in one network."""
    operations = {label: operation for label, (operation, needs) in ALL.items() if needs == shape}
    if form != "decomposed":
        operations = {label: operation for label, operation in operations.items() if label not in WRITES}
    model = Together(operations, form == "inside").double().eval()
    x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(3))
    if form == "decomposed":
        with mock.patch.object(export, "make_functional", return_value=False):
            return model, ss.trace(model, x), x
    return model, ss.trace(model, x), x


def values_of(program: Program, x: Tensor) -> dict[str, Tensor]:
    """All values of a program on a batch."""
    values = {program.input: x}
    for step in program.steps:
        if not isinstance(step, Tournament):
            values[step.output] = step.run(*(values[name] for name in step.inputs))
    return values


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_program_equals_the_model_and_steps_are_what_they_claim(shape, form):
    model, network, x = traced(shape, form)
    program = network.program()
    for rows in (x, x[:1]):
        expected = model.results(rows)
        received = program.forward(rows).split([value.shape[1] for value in expected.values()], 1)
        for (label, value), ours in zip(expected.items(), received, strict=True):
            # sums of at most a few hundred float64 terms, in another order
            torch.testing.assert_close(ours, value, rtol=1e-12, atol=1e-12, msg=lambda m, label=label: f"{label}: {m}")
    a, b = values_of(program, x), values_of(program, x.flip(0) + 0.1)
    for step in program.steps:
        if isinstance(step, Tournament):
            assert_tournament_is_consistent(step, program, a)
            continue
        ends = [[values[name] for name in step.inputs] for values in (a, b)]
        assert_affine_part_is_affine(step, *ends)
        assert_magnitudes_bound(step, ends[0])


def assert_affine_part_is_affine(step, first: list[Tensor], second: list[Tensor]) -> None:
    """Without its hinges a step keeps ratios along a segment; so do its cuts."""

    def affine_part(inputs: list[Tensor]) -> Tensor:
        output = step.run(*inputs).reshape(len(inputs[0]), -1)
        if isinstance(step, Fold):
            bent = step.cuts(*inputs).clamp_min(0) * torch.from_numpy(step.gains)
            output = output.index_add(1, torch.from_numpy(step.elements), -bent)
        return output

    parts = [affine_part] + ([lambda inputs: step.cuts(*inputs)] if isinstance(step, Fold) else [])
    t = 0.3
    between = [(1 - t) * p + t * q for p, q in zip(first, second, strict=True)]
    for part in parts:
        line = (1 - t) * part(first) + t * part(second)
        torch.testing.assert_close(part(between), line, rtol=1e-11, atol=1e-11)


def assert_magnitudes_bound(step, inputs: list[Tensor]) -> None:
    sizes = [value.abs() for value in inputs]
    if isinstance(step, Fold):
        assert step.cuts(*inputs).shape == (len(inputs[0]), step.site.units) == (len(inputs[0]), len(step.gains))
        assert (step.gains != 0).all()
        exact, bound = step.cuts(*inputs).abs(), step.cut_magnitude(*sizes)
    else:
        exact, bound = step.run(*inputs).abs(), step.magnitude(*sizes)
    assert bound.shape == exact.shape
    assert bool((bound >= exact * (1 - 1e-12) - 1e-12).all())


def assert_tournament_is_consistent(tournament: Tournament, program: Program, values: dict[str, Tensor]) -> None:
    """The winner of every stage never beats its window's winner, and meets it in some unit of each window."""
    folds = {fold.output: fold for fold in program.folds}
    final = values[tournament.final].flatten(1)
    for name, windows in tournament.stages:
        fold = folds[name]
        stage = values[name].flatten(1)[:, torch.from_numpy(fold.elements)]
        sign = fold.gains[0]
        assert len(windows) == fold.site.units
        assert bool((sign * stage <= sign * final[:, torch.from_numpy(windows)]).all())
        assert windows.tolist() == [cut % final.shape[1] for cut in range(len(windows))]  # as `units_of_cuts` takes it
    assert {folds[name].site.depth for name, _ in tournament.stages} == {folds[tournament.final].site.depth}


def test_every_registered_rule_is_met_by_an_operation_of_the_table():
    graphs = [traced(shape, form)[1]._graph for shape in SHAPES for form in ("alone", "decomposed")]
    met = {op_name(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function"}
    met.add("movedim")  # read as permute here; archives of other exporters hold it as it is
    assert sorted(name for name, op in OPERATIONS.items() if op.rule is not None and name not in met) == []


def test_graphs_without_writes_into_views_are_read_as_they_are():
    graphs = [traced(shape, "alone")[1]._graph for shape in SHAPES]
    names = {op_name(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function"}
    assert {"batch_norm", "flatten", "dropout", "softshrink"} <= names
    assert not any(name.endswith("_") for name in names)


def test_folds_have_sites():
    for label, (_, shape) in FOLDS.items():
        paths = {site.path for site in traced(shape, "alone")[1].sites}
        here = any(path.startswith(f"operations.{label}") for path in paths)
        assert here == (label not in {"leaky_relu of slope 1", "max_pool2d of one"}), label


@pytest.mark.parametrize("shape", sorted({shape for _, shape in FOLDS.values()}), ids=str)
@torch.no_grad()
def test_watching_a_forward_pass_and_reading_the_graph_find_the_same_folds(shape):
    """One table serves both: the same sites with the same units, and rows on the same sides of them."""
    model, network, x = traced(shape, "alone")
    changed: dict[int, Tensor] = {}
    with sites_of(model, x[:3], None) as seen:

        def visit(site: int, state: Tensor) -> None:
            side = state.reshape(len(state), -1)
            side = side if seen.winner[site] else side > 0
            changed[site] = (side != side[:1]).sum(1)

        seen.run(x.clone(), visit)
        facts = [(site.path, site.op, site.shape, site.units) for site in seen.sites]
    assert facts == [(site.path, site.op, site.shape, site.units) for site in network.sites]
    program = network.program()
    values, folds = values_of(program, x), {fold.output: fold for fold in program.folds}
    tournaments = {name: step for step in program.steps if isinstance(step, Tournament) for name, _ in step.stages}
    sides = []
    for name, fold in folds.items():
        if name not in tournaments:
            sides.append(fold.cuts(*(values[n] for n in fold.inputs)) > 0)
        elif name == tournaments[name].final:
            sides.append((fold.gains[0] * values[tournaments[name].competitors]).argmax(-2).flatten(1))
    for site, side in enumerate(sides):
        assert torch.equal(changed[site], (side != side[:1]).sum(1)), network.sites[site]
