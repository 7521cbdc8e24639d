"""`splinescope volume` and `sample`: how a generator stretches its latents, and even samples of its manifold."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..support.checks import require
from ..support.errors import InputError
from ..support.files import replacing
from ._outputs import (
    echo_result,
    json_option,
    note,
    options,
    quiet_option,
    write,
    write_arrays,
    written_arrays,
    written_image,
)
from .inputs import MODEL_HELP, data_file, model_arguments, read_array, read_model, shape_numbers

if TYPE_CHECKING:
    from ..generative.domains import LatentDomain

_latent_options = options(
    click.option("--latent-shape", type=shape_numbers,
                 help="Shape of one latent, e.g. 64 or 100,1,1; ONNX files know it."),
    click.option("--domain", type=click.Choice(["ball", "box", "gaussian", "truncated", "sphere"]), default="ball",
                 show_default=True, help="Where latents live: uniform in a ball or box or on a sphere, normal, "
                 "or normal within a radius."),
    click.option("--radius", type=float, help="Radius of ball or sphere (sqrt(size)), half side of box (1), bound of "
                 "truncated (2), scale of gaussian (1)."),
    click.option("--top-k", type=int, help="Only the k largest singular values."),
    click.option("--output", type=click.Choice(["after", "before"]), default="after", show_default=True,
                 help="After or before the final tanh, sigmoid or softmax."),
    click.option("--seed", default=0, show_default=True, help="Seed of the latents."),
    json_option,
)  # fmt: skip


def _shape_of_latent(model: Any, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    known = shape or getattr(model, "input_shape", None)
    if known is None:
        raise InputError("--latent-shape is needed for a generator built by a function, e.g. --latent-shape 64.")
    return tuple(known)


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
@_latent_options
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
    if latents is not None:
        z = torch.from_numpy(read_array(latents, latent_shape or getattr(generator, "input_shape", None)))
    else:
        shape = _shape_of_latent(generator, latent_shape)
        place = _domain(domain, shape, radius)
        z = place.draw(count, torch.Generator().manual_seed(seed))
        z, tangents = z.unflatten(1, shape), place.tangents(z)
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


@click.command("sample", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@_latent_options
@click.option("--rho", default=1.0, show_default=True, help="1: uniform on the manifold (MaGNET); 0: the model's own; "
              "below 0: modes; above 1: anti-modes.")  # fmt: skip
@click.option("-n", "--count", default=100, show_default=True, help="How many samples.")
@click.option("--pool", default=4096, show_default=True, help="How many proposals to weight.")
@click.option("--method", type=click.Choice(["resample", "rejection", "metropolis"]), default="resample",
              show_default=True)  # fmt: skip
@click.option("--cache", type=click.Path(file_okay=False), help="Folder that keeps volumes; work resumes there.")
@click.option("--out", type=written_arrays, required=True, help="Write latents and outputs (.npz).")
@click.option("--images", type=written_image, help="Write the first 100 outputs as a grid (.png).")
@quiet_option
def sample_command(
    model: str, weights: str | None, latent_shape: tuple[int, ...] | None, domain: str, radius: float | None,
    top_k: int | None, output: str, seed: int, as_json: bool, rho: float, count: int, pool: int, method: str,
    cache: str | None, out: str, images: str | None, quiet: bool,
) -> None:  # fmt: skip
    """Sample a generator MODEL evenly, without retraining.

    Draws with density p_model(x)^(1 - rho) on its manifold: rho 1 is uniform, rho 0 as the model itself.

    \b
    Examples:
      splinescope sample generator.onnx --domain box -n 64 --out uniform.npz
      splinescope sample my_models:gan --weights g.pt --latent-shape 64 --top-k 5 --rho 1 -n 100 \\
          --cache volumes --out digits.npz --images digits.png
    """
    import torch

    from ..generative import PolaritySampler

    generator = read_model(model, weights)
    shape = _shape_of_latent(generator, latent_shape)
    sampler = PolaritySampler(
        generator, _domain(domain, shape, radius), rho=rho, pool=pool, top_k=top_k, output=output, latent_shape=shape,
        seed=seed, cache=cache, progress=not quiet,
    )  # fmt: skip
    if images is not None:  # before the long work, and before anything is written
        _image_grid(sampler.generate(sampler.domain.draw(1, torch.Generator().manual_seed(seed))).cpu().numpy())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = sampler.sample(count, method=method)
    for warning in caught:
        note(f"Warning: {warning.message}")
    outputs = samples.outputs.cpu().numpy()
    write_arrays(
        out, {"latents": samples.latents.numpy(), "outputs": outputs, "log_volume": samples.log_volume.numpy()}
    )
    write(images, lambda path: _save_images(path, outputs[:100]))
    summary = {
        "samples": count,
        "rho": rho,
        "law": samples.law,
        "pool": pool,
        "effective size": round(sampler.effective_size(), 1),
        "acceptance": round(samples.acceptance, 4),
    }
    echo_result(summary, as_json)


def _save_images(path: str, outputs: np.ndarray) -> None:
    with replacing(path) as partial:
        require("matplotlib.pyplot", "plot").imsave(partial, _image_grid(outputs), cmap="gray", vmin=0, vmax=1)


def _image_grid(outputs: np.ndarray) -> np.ndarray:
    """The outputs side by side, small ones enlarged so that they can be seen; refused if they are no images."""
    require("matplotlib.pyplot", "plot")
    from ..plot.generative import image_grid

    try:
        grid = image_grid(outputs)
    except InputError as error:
        raise InputError(f"--images needs a generator of images: {error}") from error
    side = outputs.shape[-1] if outputs.ndim > 2 else round(outputs.shape[1] ** 0.5)
    factor = max(1, 56 // side)
    return grid.repeat(factor, 0).repeat(factor, 1)
