"""`splinescope sample`: draw from a generator's manifold by MaGNET or any polarity."""

from __future__ import annotations

import warnings
from pathlib import Path

import click

from ._latents import (
    check_arrays_path,
    check_images,
    latent_options,
    make_domain,
    shape_of_latent,
    write_arrays,
    write_grid,
)
from ._outputs import echo_numbers, note, written_file
from .inputs import MODEL_HELP, model_arguments, read_model


@click.command("sample", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@latent_options
@click.option("--rho", default=1.0, show_default=True, help="1: uniform on the manifold (MaGNET); 0: the model's own; "
              "below 0: modes; above 1: anti-modes.")  # fmt: skip
@click.option("-n", "--count", default=100, show_default=True, help="How many samples.")
@click.option("--pool", default=4096, show_default=True, help="How many proposals to weight.")
@click.option("--method", type=click.Choice(["resample", "rejection", "metropolis"]), default="resample",
              show_default=True)  # fmt: skip
@click.option("--top-k", type=int, help="Volume of the k largest singular values only.")
@click.option("--output", type=click.Choice(["after", "before"]), default="after", show_default=True,
              help="Uniform on the outputs of MODEL, or on the values before its final tanh or sigmoid.")  # fmt: skip
@click.option("--keep-prior", is_flag=True, help="Target p_z * vol^rho, as public code does for normal latents.")
@click.option("--seed", default=0, show_default=True)
@click.option("--cache", type=click.Path(file_okay=False), help="Folder that keeps volumes; work resumes there.")
@click.option("--out", type=written_file, required=True, help="Write latents and outputs (.npz).")
@click.option("--images", type=written_file, help="Write the first 100 outputs as a grid (.png).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str, weights: str | None, trust: bool, latent_shape: str | None, domain: str, radius: float | None,
    rho: float, count: int, pool: int, method: str, top_k: int | None, output: str,
    keep_prior: bool, seed: int,
    cache: str | None, out: str, images: str | None, as_json: bool, quiet: bool,
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
    from ..support.errors import InputError

    check_arrays_path(out)
    if images is not None and Path(images).suffix.lower() != ".png":
        raise InputError(f"--images must end in .png, got {images!r}.")
    generator = read_model(model, weights, trust=trust)
    shape = shape_of_latent(generator, latent_shape)
    place = make_domain(domain, int(torch.Size(shape).numel()), radius)
    sampler = PolaritySampler(
        generator, place, rho=rho, pool=pool, divide_prior=not keep_prior, top_k=top_k, output=output,
        latent_shape=shape, seed=seed, cache=cache, progress=not quiet,
    )  # fmt: skip
    if images is not None:  # before the long work, and before anything is written
        check_images(sampler.generate(sampler.domain.draw(1, torch.Generator().manual_seed(seed))).cpu().numpy())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = sampler.sample(count, method=method)
    for warning in caught:
        note(f"Warning: {warning.message}")
    outputs = samples.outputs.cpu().numpy()
    write_arrays(
        out, {"latents": samples.latents.numpy(), "outputs": outputs, "log_volume": samples.log_volume.numpy()}
    )
    note(f"wrote {out}")
    if images is not None:
        write_grid(images, outputs)
        note(f"wrote {images}")
    summary = {
        "samples": count,
        "rho": rho,
        "law": samples.law,
        "pool": pool,
        "effective size": round(sampler.effective_size(), 1),
        "acceptance": round(samples.acceptance, 4),
    }
    echo_numbers(summary, as_json)
