"""An experiment as a small TOML file: data, network, flow.

[data]
covariance = [[5.0, 0.0], [0.0, 1.0]]   # a Gaussian, or: file = "points.csv", last column y
points = 500
[[data.teacher]]                        # y = sum of amplitude * function(direction . x)
function = "relu"
direction = [1.0, 0.0]

[network]
width = 60
activation = "relu"

[flow]
dynamics = "euclidean"                  # or "normalised", "manifold", "plain"
time = 10.0
rate = 0.01                             # gradient descent with this step; leave out for the flow itself
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._checks import as_float64_array, check_positive, check_whole
from .._errors import InputError
from .data import Data, GaussianInputs
from .flow import Trajectory, descend, flow
from .functions import as_activation
from .networks import TwoLayerBN

SECTIONS: dict[str, dict[str, Any]] = {
    "data": {
        "covariance": None,
        "points": 500,
        "teacher": None,
        "file": None,
        "centre": "refuse",
        "seed": 0,
    },
    "network": {"width": 50, "activation": "tanh", "amplitude": 1.0, "length": 1.0, "seed": 1},
    "flow": {
        "dynamics": "manifold",
        "time": 10.0,
        "frames": 50,
        "loss": "squared",
        "rtol": 1e-6,
        "step": None,
        "rate": None,
        "batch_size": None,
    },
}
"""Every key with its default; None means absent. `data` needs `file`, or `covariance` and `teacher`."""


@dataclass(frozen=True)
class Setup:
    """What a config file describes, ready to run."""

    net: TwoLayerBN
    data: Data
    settings: dict[str, Any]

    def run(self) -> Trajectory:
        """The flow or descent that the file asks for."""
        return _run(self.settings["flow"], self.net, self.data)


def read_config(path: str | os.PathLike[str]) -> Setup:
    """Read a TOML file as described above; file names in it are relative to it.

    Amplitudes are normal with standard deviation `amplitude`, directions uniform, lengths all `length`.
    Unknown sections and keys are errors that list the known ones.
    """
    source = Path(path)
    try:
        raw = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source} must be a TOML file: {error}") from error
    _known(raw, SECTIONS, "section")
    settings = {}
    for name, defaults in SECTIONS.items():
        _known(raw.get(name, {}), defaults, f"key of [{name}]")
        settings[name] = defaults | raw.get(name, {})
        for key, default in defaults.items():
            value = settings[name][key]
            wanted = (int, float) if isinstance(default, float) else type(default)
            if default is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
                raise InputError(f"{key} of [{name}] must be like {default!r}, got {value!r}.")
    data = _data(settings["data"], source.parent)
    net = _network(settings["network"], data.dimension)
    return Setup(net, data, settings)


def _known(given: Any, known: dict[str, Any], what: str) -> None:
    if not isinstance(given, dict):
        raise InputError(f"every section must be a table, got {given!r}.")
    for key in given:
        if key not in known:
            raise InputError(f"{key!r} is no {what}; there are: {', '.join(known)}.")


def _data(section: dict[str, Any], folder: Path) -> Data:
    if section["file"] is not None:
        try:
            table = np.loadtxt(folder / section["file"], delimiter=",", ndmin=2)
        except ValueError as error:
            raise InputError(f"{section['file']} must be numbers separated by commas: {error}") from error
        if table.shape[1] < 2:
            raise InputError(f"{section['file']} must have at least two columns, inputs and y, got 1.")
        return Data.of(table[:, :-1], table[:, -1], centre=section["centre"])
    if section["covariance"] is None or not section["teacher"]:
        raise InputError("[data] needs either file, or covariance and at least one [[data.teacher]].")
    population = GaussianInputs(section["covariance"])
    d = population.covariance.shape[0]
    terms = []
    for term in section["teacher"]:
        _known(term, {"function": "", "direction": (), "amplitude": 1.0}, "key of [[data.teacher]]")
        direction = torch.as_tensor(as_float64_array(term.get("direction", ()), "direction of [[data.teacher]]"))
        if direction.shape != (d,):
            raise InputError(f"direction must have {d} numbers, like the covariance, got {direction.tolist()}.")
        amplitude = as_float64_array(term.get("amplitude", 1.0), "amplitude of [[data.teacher]]")
        if amplitude.ndim:
            raise InputError(f"amplitude of [[data.teacher]] must be one number, got {amplitude.tolist()}.")
        terms.append((as_activation(term.get("function", "relu")), direction, amplitude.item()))

    def target(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([amplitude * f.value(x @ direction) for f, direction, amplitude in terms]).sum(0)

    generator = torch.Generator().manual_seed(section["seed"])
    return population.sample(section["points"], target, generator=generator)


def _network(section: dict[str, Any], d: int) -> TwoLayerBN:
    generator = torch.Generator().manual_seed(section["seed"])
    check_whole(section["width"], "width of [network]")
    normal = torch.randn(section["width"], 1 + d, generator=generator, dtype=torch.float64)
    b = normal[:, 1:] / normal[:, 1:].norm(dim=1, keepdim=True)
    return TwoLayerBN(section["amplitude"] * normal[:, 0], section["length"] * b, section["activation"])


def _run(section: dict[str, Any], net: TwoLayerBN, data: Data) -> Trajectory:
    time = check_positive(section["time"], "time of [flow]")
    frames = check_whole(section["frames"], "frames of [flow]")
    if section["rate"] is None:
        if section["batch_size"] is not None:
            raise InputError("batch_size needs rate: mini-batches belong to gradient descent, not to the flow.")
        return flow(
            net,
            data,
            section["loss"],
            times=np.linspace(0, time, frames + 1),
            dynamics=section["dynamics"],
            rtol=section["rtol"],
            atol=section["rtol"] / 100,
            step=section["step"],
        )
    iterations = max(1, round(time / check_positive(section["rate"], "rate of [flow]")))
    return descend(
        net,
        data,
        section["loss"],
        rate=section["rate"],
        iterations=iterations,
        dynamics=section["dynamics"],
        batch_size=section["batch_size"],
        record_every=max(1, iterations // frames),
        generator=torch.Generator().manual_seed(0),
    )
