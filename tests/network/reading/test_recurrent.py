"""Recurrent layers with ReLU are read step by step; their classes stay as they were, and others are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.complexity import local_complexity


class Reader(nn.Module):
    """A label for each sequence, from the last state."""

    def __init__(self, layer: nn.Module, state: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.state = layer, nn.Linear(3, 2), state

    def forward(self, x: Tensor) -> Tensor:
        if not self.layer.batch_first:
            return self.head(self.layer(x.transpose(0, 1))[0][-1])
        given = (self.layer(x, torch.ones(1, x.shape[0], 3)) if self.state else self.layer(x))[0]
        return self.head(given[:, -1])


def reader(seed: int = 0) -> Reader:
    torch.manual_seed(seed)
    return Reader(nn.RNN(2, 3, nonlinearity="relu", batch_first=True))


def test_a_recurrent_network_has_exact_tiles_on_planes_of_sequences() -> None:
    model = reader()
    tiling = ss.tessellate(model, ss.Slice.through(*torch.randn(3, 4, 2, dtype=torch.float64), pad=2.0))
    assert [(site.path, site.units, site.depth) for site in tiling.sites] == [("layer", 3, d) for d in (1, 2, 3, 4)]
    assert tiling.count > 10
    report = tiling.check()
    assert report.ok
    assert report.skipped == ()
    starts, sizes = tiling.tiles.offsets[:-1], np.diff(tiling.tiles.offsets)[:, None]
    mean = lambda numbers: np.add.reduceat(numbers[tiling.tiles.corners], starts) / sizes  # noqa: E731
    middles = torch.from_numpy(tiling.view.inputs(mean(tiling.vertices)))
    with torch.no_grad():  # the module itself is affine on each tile: at the mean of corners, the mean of values
        np.testing.assert_allclose(model.double()(middles).numpy(), mean(tiling.values), rtol=1e-9, atol=1e-9)


def test_parameters_are_read_anew_and_classes_are_left_as_found() -> None:
    before = nn.RNN.forward, nn.RNNCell.forward
    model, x = reader(), torch.randn(5, 4, 2)
    network = ss.trace(model, x)
    assert local_complexity(model, x, radius=0.5).counts.shape == (5, 4)
    assert (nn.RNN.forward, nn.RNNCell.forward) == before
    with torch.no_grad():
        model.layer.weight_hh_l0.mul_(-2.0)
    torch.testing.assert_close(network.program().forward(x).float(), model(x).detach())


def test_a_layer_that_takes_the_batch_for_time_is_named() -> None:
    layer = nn.RNN(2, 3, nonlinearity="relu")
    read = ss.pick_output(nn.Sequential(nn.Linear(2, 2), layer), 0)
    with pytest.raises(ss.UnsupportedModelError, match=r"1 \(RNN\) takes the first axis.*batch_first=True"):
        ss.trace(read, torch.zeros(1, 4, 2))


@pytest.mark.parametrize(
    ("layer", "state", "reason"),
    [
        (nn.RNN(2, 3, nonlinearity="relu"), False, "rnn_relu is read step by step with batch_first=True"),
        (nn.RNN(2, 3, nonlinearity="relu", batch_first=True), True, "rnn_relu is read step by step"),
        (nn.RNN(2, 3, batch_first=True), False, "rnn_tanh is smooth"),
        (nn.LSTM(2, 3, batch_first=True), False, "lstm multiplies gates"),
        (nn.GRU(2, 3, batch_first=True), False, "gru multiplies gates"),
    ],
    ids=["batch axis second", "initial state", "tanh", "lstm", "gru"],
)
def test_other_recurrent_layers_are_refused_with_the_reason(layer: nn.Module, state: bool, reason: str) -> None:
    with pytest.raises(ss.UnsupportedModelError, match=reason):
        ss.trace(Reader(layer, state), torch.zeros(2, 4, 2))
