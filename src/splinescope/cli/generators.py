"""`splinescope volume`: how a generator stretches its latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import numpy as np

from ..support.errors import InputError
from ._outputs import echo_result, json_option, write_arrays, written_arrays
from .inputs import MODEL_HELP, data_file, model_arguments, read_array, read_model, shape_numbers

if TYPE_CHECKING:
    from ..generative.domains import LatentDomain


def _domain(name: str, shape: tuple[int, ...], radius: float | None) -> LatentDomain:
    """The domain that --domain and --radius describe."""
    from ..generative import Ball, Box, Gaussian, Sphere, TruncatedGaussian

    size = int(np.prod(shape))
    if name == "box":
        half = 1.0 if radius is None else radius
        return Box(size, -half, half)
    if name == "gaussian":
        return Gaussian(size, 1.0 if radius is None else radius)
    if name == "truncated":
        return TruncatedGaussian(size, 2.0 if radius is None else radius)
    reach = size**0.5 if radius is None else radius
    return Ball(size, reach) if name == "ball" else Sphere(size, reach)


@click.command("volume", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@click.option("--latent-shape", type=shape_numbers, help="Shape of one latent, e.g. 64 or 100,1,1; ONNX files know it.")
@click.option(
    "--domain",
    type=click.Choice(["ball", "box", "gaussian", "truncated", "sphere"]),
    default="ball",
    show_default=True,
    help="Where latents live: uniform in a ball or box or on a sphere, normal, or normal within a radius.",
)
@click.option(
    "--radius",
    type=float,
    help="Radius of ball or sphere (sqrt(size)), half side of box (1), bound of truncated (2), scale of gaussian (1).",
)
@click.option("--top-k", type=int, help="Only the k largest singular values.")
@click.option(
    "--output",
    type=click.Choice(["after", "before"]),
    default="after",
    show_default=True,
    help="After or before the final tanh, sigmoid or softmax.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the latents.")
@json_option
@click.option("-n", "--count", type=click.IntRange(min=1), default=256, show_default=True,
              help="How many latents to draw.")  # fmt: skip
@click.option("--latents", type=data_file, help="Take latents from a file, one per row: .npy, .npz, FILE.npz:name, "
              ".csv or .pt.")  # fmt: skip
@click.option("--out", type=written_arrays, help="Write latents, volumes and singular values (.npz).")
def volume_command(
    model: str, weights: str | None, latent_shape: tuple[int, ...] | None, domain: str, radius: float | None,
    top_k: int | None, output: str, seed: int, as_json: bool, count: int, latents: str | None, out: str | None,
) -> None:  # fmt: skip
    """Measure how a generator MODEL stretches its latents.

    Gives log volume factors sqrt(det(A^T A)) and ranks.

    \b
    Examples:
      splinescope volume generator.onnx --domain box -n 1000
      splinescope volume my_models:generator --weights g.safetensors --latent-shape 64 --top-k 5 --out volumes.npz
    """
    import torch

    from ..generative import log_volume

    generator = read_model(model, weights)
    tangents = None
    shape = latent_shape or getattr(generator, "input_shape", None)
    if latents is not None:
        z = torch.from_numpy(read_array(latents, shape))
    elif shape is None:
        raise InputError("--latent-shape is needed for a generator built by a function, e.g. --latent-shape 64.")
    else:
        place = _domain(domain, shape, radius)
        z = place.draw(count, torch.Generator().manual_seed(seed))
        z, tangents = z.unflatten(1, tuple(shape)), place.tangents(z)
    found = log_volume(generator, z, top_k=top_k, output=output, tangents=tangents)
    finite = found.log[found.log.isfinite()]
    quantiles = torch.quantile(finite, torch.tensor([0.05, 0.5, 0.95]).double()).tolist() if len(finite) else []
    names = ("log", "log_pseudo", "rank", "singular_values")
    write_arrays(out, {"latents": z.numpy(), **{name: getattr(found, name).numpy() for name in names}})
    summary = {
        "latents": len(z),
        "singular values": found.singular_values.shape[1],
        "zero volumes": int(len(z) - len(finite)),
        "rank (least, most)": [int(found.rank.min()), int(found.rank.max())],
        "log volume (5%, 50%, 95%)": [round(q, 6) for q in quantiles],
        "certainty": found.certainty,
    }
    echo_result(summary, as_json)
