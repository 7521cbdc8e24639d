"""Finds experiments by id; the folder is the list."""

from __future__ import annotations

import importlib
import pkgutil

from .._errors import InputError
from ._experiment import Experiment


def ids() -> list[str]:
    """Ids of all experiments, sorted."""
    package = importlib.import_module(__package__)
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


def find(experiment_id: str) -> Experiment:
    """The experiment with this id; an unknown id is an error that lists the known ones."""
    if experiment_id not in ids():
        raise InputError(f"No experiment {experiment_id!r}; there are: {', '.join(ids())}.")
    module = importlib.import_module(f"{__package__}.{experiment_id.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
