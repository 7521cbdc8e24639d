"""From what a user gives as a model to the module that is meant."""

from __future__ import annotations

from torch import nn

from splinescope.support.checks import check_module

from .network import SplineNetwork
from .outputs import Picked
from .readable import check_readable


def module_of(model: object) -> nn.Module:
    """The torch module that is meant, as one that returns one tensor; of a network that was read, the one read."""
    module = model.module if isinstance(model, SplineNetwork) else check_module(model)
    check_readable(module)
    return module if isinstance(module, Picked) else Picked(module)
