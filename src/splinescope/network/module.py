"""From what a user gives as a model to the module that is meant."""

from __future__ import annotations

from torch import nn

from splinescope._errors import InputError

from ._network import SplineNetwork
from .export import check_readable
from .outputs import Picked


def module_of(model: object) -> nn.Module:
    """The torch module that is meant, as one that returns one tensor; of a network that was read, the one read."""
    module = model.module if isinstance(model, SplineNetwork) else model
    if not isinstance(module, nn.Module):
        raise InputError(
            f"model must be a torch.nn.Module (or the result of trace or load), got {type(model).__name__}."
        )
    check_readable(module)
    return module if isinstance(module, Picked) else Picked(module)
