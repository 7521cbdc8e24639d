"""Checks of arguments that only these tools need."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.support.checks import check_generator
from splinescope.support.errors import InputError


def numpy_generator(generator: Any) -> np.random.Generator:
    """A numpy source of randomness that follows `generator`; with seed 0 if that is None, so that calls agree."""
    if check_generator(generator) is None:
        return np.random.default_rng(0)
    return np.random.default_rng(int(torch.randint(2**62, (), generator=generator, device=generator.device)))


def check_names(value: Any, name: str) -> list[str]:
    """`value` as a list of strings; one string alone is refused, which would be read letter by letter."""
    if not (isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)):
        got = f"{value!r}: give [{value!r}]" if isinstance(value, str) else type(value).__name__
        raise InputError(f"{name} must be a list of names, got {got}.")
    return list(value)
