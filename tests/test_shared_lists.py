"""Points, latents and checkpoints shared between processes give what one process gives."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.support import worker_processes
from tests.tiling.engine.test_workers import in_this_process


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)  # functions, arguments and results are packed and unpacked all the same


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4)).eval()


def test_checkpoints(model: nn.Sequential) -> None:
    states = {}
    for step in (0, 5, 9):
        states[step] = {name: value + 0.01 * step for name, value in model.state_dict().items()}
    view = ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1.0, 1.0)
    x = {"train": torch.randn(12, 3, generator=torch.Generator().manual_seed(3))}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    alone = ss.complexity.timeline(model, states, view, x=x, radius=0.1)
    shared = ss.complexity.timeline(model, states, view, x=x, radius=0.1, workers=2)
    np.testing.assert_array_equal(shared.steps, alone.steps)
    for name, values in alone.measures.items():
        np.testing.assert_allclose(shared.measures[name], values, rtol=1e-12)
    for one, other in zip(alone.tilings, shared.tilings, strict=True):
        np.testing.assert_array_equal(one.vertices, other.vertices)
        np.testing.assert_array_equal(one.tiles.corners, other.tiles.corners)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_every_row_is_in_one_block_and_there_is_work_for_all() -> None:
    for count, workers in ((1, 2), (3, 2), (100, 3)):
        blocks = worker_processes.blocks(count, workers)
        assert [i for block in blocks for i in range(count)[block]] == list(range(count))
        assert len(blocks) >= min(count, workers)
