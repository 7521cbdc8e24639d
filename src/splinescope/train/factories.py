"""Modules by the name of what makes them: "package.module:factory"."""

from __future__ import annotations

import importlib
import os

from torch import nn

from ..support.checks import check_file, check_module
from ..support.errors import InputError
from ..support.files import current_folder_first
from .checkpoints import load_checkpoint


def made_by(factory: str, weights: str | os.PathLike[str] | None = None) -> nn.Module:
    """The module that a class or function without required arguments makes, with parameters of a file, in eval mode.

    Its module is imported as Python would from the current folder.
    """
    module_name, _, factory_name = factory.partition(":")
    with current_folder_first():
        try:
            made = getattr(importlib.import_module(module_name), factory_name)
        except (ImportError, AttributeError) as error:
            raise InputError(f"MODEL {factory!r} was not found: {error}.") from error
        if not isinstance(made, nn.Module):
            if not callable(made):
                raise InputError(f"{factory} must be a class or function that makes a torch.nn.Module, got {made!r}.")
            try:
                made = made()
            except Exception as error:  # the user's own code: whatever it raises is bad input here
                raise InputError(f"{factory}() failed: {type(error).__name__}: {error}") from error
    check_module(made, f"what {factory} gives", read=False)
    if weights is not None:
        load_checkpoint(made, check_file(weights))
    return made.eval()
