"""`splinescope volume`: how much a generator stretches volume at latents."""

from __future__ import annotations

import click

from ._latents import check_arrays_path, latent_options, make_domain, shape_of_latent, write_arrays
from ._outputs import echo_numbers, note, written_file
from .inputs import MODEL_HELP, data_file, model_arguments, read_array, read_model


@click.command("volume", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@latent_options
@click.option("-n", "--count", default=256, show_default=True, help="How many latents to draw.")
@click.option(
    "--latents", type=data_file, help="Take latents from a file, one per row: .npy, .npz, FILE.npz:name, .csv or .pt."
)
@click.option("--top-k", type=int, help="Only the k largest singular values.")
@click.option("--output", type=click.Choice(["after", "before"]), default="after", show_default=True,
              help="After or before the final tanh, sigmoid or softmax.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the latents.")
@click.option("--out", type=written_file, help="Write latents, volumes and singular values (.npz).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    model: str, weights: str | None, trust: bool, latent_shape: str | None, domain: str, radius: float | None,
    count: int, latents: str | None, top_k: int | None, output: str, seed: int, out: str | None, as_json: bool,
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
    from ..support.errors import InputError

    if out is not None:
        check_arrays_path(out)
    if count < 1:
        raise InputError(f"-n must be at least 1, got {count}.")
    generator = read_model(model, weights, trust=trust)
    tangents = None
    if latents is not None:
        known = latent_shape is not None or hasattr(generator, "input_shape")
        z = torch.from_numpy(read_array(latents, shape_of_latent(generator, latent_shape) if known else None))
    else:
        shape = shape_of_latent(generator, latent_shape)
        place = make_domain(domain, int(torch.Size(shape).numel()), radius)
        z = place.draw(count, torch.Generator().manual_seed(seed))
        z, tangents = z.unflatten(1, shape), place.tangents(z)
    found = log_volume(generator, z, top_k=top_k, output=output, tangents=tangents)
    finite = found.log[found.log.isfinite()]
    quantiles = torch.quantile(finite, torch.tensor([0.05, 0.5, 0.95]).double()).tolist() if len(finite) else []
    summary = {
        "latents": len(z),
        "singular values": found.singular_values.shape[1],
        "zero volumes": int(len(z) - len(finite)),
        "rank (least, most)": [int(found.rank.min()), int(found.rank.max())],
        "log volume (5%, 50%, 95%)": [round(q, 6) for q in quantiles],
        "certainty": found.certainty,
    }
    if out is not None:
        names = ("log", "log_pseudo", "rank", "singular_values", "error")
        write_arrays(out, {"latents": z.numpy(), **{name: getattr(found, name).numpy() for name in names}})
        note(f"wrote {out}")
    echo_numbers(summary, as_json)
