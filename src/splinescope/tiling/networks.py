"""The network that a slice is tiled for: traced on the slice's inputs, and found to fit it."""

import numpy as np

from ..network import SplineNetwork, trace
from ..network.program import Program
from ..network.readable import check_exact
from ..network.reading.export import DidNotRun
from ..support.checks import check_module
from ..support.errors import InputError
from .engine.plan import is_connected, spread
from .slice import Slice


def checked_network(model: object, view: Slice, output: int | str | None = None) -> tuple[SplineNetwork, Program]:
    """The network and its program, once they are found to fit the slice."""
    network = trace(model, None, output=output) if isinstance(model, SplineNetwork) else traced(model, view, output)
    if tuple(network.input_shape) != view.input_shape:
        raise InputError(
            f"the slice must lie in the network's input space: inputs of shape {tuple(network.input_shape)} expected, "
            f"the slice has {view.input_shape}."
        )
    program = check_exact(network.program(), "It was traced with smooth=True: give tolerance=1e-3, say.")
    if not is_connected(program):
        raise InputError(
            "the network's output must depend on its input; no non-zero weight connects them, so it is constant."
        )
    return network, program


def traced(model: object, view: Slice, output: int | str | None = None, *, smooth: bool = False) -> SplineNetwork:
    """A module traced on inputs of the slice."""
    check_slice(view)
    model = check_module(model)
    # a module seen before is compared where it is looked at, and where folds come in: at corners
    inside = spread(len(view.domain), 4) @ view.domain
    example = view.inputs(np.concatenate([view.domain[:28], inside]))
    try:
        return trace(model, example, output=output, smooth=smooth)
    except DidNotRun as error:
        raise InputError(f"the model does not take the slice's inputs, of shape {view.input_shape}: {error}") from error


def check_slice(view: object) -> None:
    if not isinstance(view, Slice):
        raise InputError(f"view must be a Slice, got {type(view).__name__}; for a list of them see tessellate_each.")
