"""Pictures of unsafe sets show what they measure."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_every_polytope_is_drawn_in_the_frame_of_the_slice(inputs: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, 1)).double()
    asked = Property.between(0, float(net(torch.zeros(1, inputs).double()).detach()))
    unsafe = ss.verify(net, asked, (-np.ones(inputs), np.ones(inputs)), complete=True).unsafe
    assert unsafe is not None
    assert len(unsafe) > 1
    ax = unsafe.plot(color="#ff0000")
    if inputs == 1:
        assert len(ax.patches) == len(unsafe)
    elif inputs == 2:
        assert len(ax.collections[0].get_paths()) == len(unsafe)
    else:
        assert len(ax.collections) == 1
        np.testing.assert_allclose(ax.get_zlim(), (-1, 1))
    np.testing.assert_allclose(ax.get_xlim(), (-1, 1))
    plt.close(ax.figure)


def test_more_dimensions_are_sent_to_slices() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    unsafe = ss.verify(net, Property.between(0, 0.0), (-1.0, 1.0), complete=True).unsafe
    assert unsafe is not None
    with pytest.raises(ss.InputError, match="Slice of two or three"):
        unsafe.plot()
