"""Finds experiments by id: the folders are the list."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from splinescope import InputError

from .experiment import DOCUMENTS, Experiment

ROOT = Path(__file__).parents[1]


@cache
def files() -> dict[str, Path]:
    """The file of each experiment by its id, sorted; a document's folder may have folders."""
    found = ((document, file) for document in DOCUMENTS for file in (ROOT / document).rglob("[!_]*.py"))
    return dict(sorted((f"{document}-{file.stem.replace('_', '-')}", file) for document, file in found))


def ids() -> list[str]:
    """Ids of all experiments, sorted."""
    return list(files())


def find(experiment_id: str) -> Experiment:
    """The experiment with this id; an unknown id is an error that lists the known ones."""
    if experiment_id not in files():
        from splinescope.support.errors import did_you_mean

        near = did_you_mean(experiment_id, ids())
        raise InputError(f"No experiment {experiment_id!r}{near} There are: {', '.join(ids())}.")
    parts = files()[experiment_id].relative_to(ROOT).with_suffix("").parts
    experiment: Experiment = importlib.import_module(".".join((ROOT.name, *parts))).EXPERIMENT
    return experiment


def document_of(experiment_id: str) -> str:
    """The document that an experiment is about, by the name of its folder."""
    return experiment_id.partition("-")[0]
