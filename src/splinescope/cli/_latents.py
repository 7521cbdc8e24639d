"""What the verbs on generators share: latent domains as options, and writing arrays and grids of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..support.checks import require
from ..support.errors import InputError
from ..support.files import replacing

if TYPE_CHECKING:
    from torch import nn

    from ..generative.domains import LatentDomain
    from ..network import SplineNetwork

_F = TypeVar("_F", bound=Callable[..., Any])


def latent_options(command: _F) -> _F:
    """--latent-shape, --domain and --radius, for every verb that draws latents."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = [
    click.option("--latent-shape", help="Shape of one latent, e.g. 64 or 100,1,1; ONNX files know it."),
    click.option("--domain", type=click.Choice(["ball", "box", "gaussian", "truncated", "sphere"]), default="ball",
                 show_default=True, help="Where latents live: uniform in a ball or box or on a sphere, normal, "
                 "or normal within a radius."),
    click.option("--radius", type=float, help="Radius of ball or sphere (sqrt(size)), half side of box (1), bound of "
                 "truncated (2), scale of gaussian (1)."),
]  # fmt: skip


def shape_of_latent(model: nn.Module | SplineNetwork, text: str | None) -> tuple[int, ...]:
    """The latent's shape, as said or as the file tells."""
    if text is not None:
        try:
            return tuple(int(part) for part in text.split(","))
        except ValueError:
            raise InputError(f"--latent-shape must be whole numbers separated by commas, got {text!r}.") from None
    known = getattr(model, "input_shape", None)
    if known is None:
        raise InputError("--latent-shape is needed for a generator built by a function, e.g. --latent-shape 64.")
    return tuple(known)


def make_domain(name: str, size: int, radius: float | None) -> LatentDomain:
    """The domain that --domain and --radius describe."""
    from ..generative import Ball, Box, Gaussian, Sphere, TruncatedGaussian

    if name == "box":
        half = 1.0 if radius is None else radius
        return Box(size, -half, half)
    if name == "gaussian":
        return Gaussian(size, 1.0 if radius is None else radius)
    if name == "truncated":
        return TruncatedGaussian(size, 2.0 if radius is None else radius)
    reach = size**0.5 if radius is None else radius
    return Ball(size, reach) if name == "ball" else Sphere(size, reach)


def write_arrays(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Arrays into one .npz file, whole or not at all."""
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def check_arrays_path(path: str) -> None:
    """Refuse another ending than .npz before the work starts."""
    if Path(path).suffix.lower() != ".npz":
        raise InputError(f"--out must end in .npz, got {path!r}.")


def check_images(outputs: np.ndarray) -> None:
    """Refuse outputs that are no images."""
    require("matplotlib.pyplot", "plot")
    from ..plot.generative import image_grid

    try:
        image_grid(outputs)
    except InputError as error:
        raise InputError(f"--images needs a generator of images: {error}") from error


def write_grid(path: str, images: np.ndarray) -> None:
    """A PNG of at most 100 images."""
    pyplot = require("matplotlib.pyplot", "plot")
    from ..plot.generative import image_grid

    with replacing(path) as partial:
        pyplot.imsave(partial, np.kron(image_grid(images[:100]), _enlarged(images)), cmap="gray", vmin=0, vmax=1)


def _enlarged(images: np.ndarray) -> np.ndarray:
    """Ones to enlarge pixels by, so that small images can be seen."""
    side = images.shape[-1] if images.ndim > 2 else round(images.shape[1] ** 0.5)
    factor = max(1, 56 // side)
    colors = images.ndim == 4 and images.shape[1] == 3
    return np.ones((factor, factor, 1) if colors else (factor, factor))
