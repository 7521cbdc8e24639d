"""`splinescope timeline`: one slice at every checkpoint of a training run."""

from typing import Any

import click

from ..support.checks import require
from ..support.drawing import drawing
from ._outputs import echo_result, json_option, note, plot_option, write, write_figure, written_file
from .inputs import (
    check_data_file,
    make_slice,
    model_name,
    pick_option,
    radius_option,
    read_array,
    read_model,
    slice_options,
)


def _named_files(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """NAME=FILE in pairs, refused before torch is loaded if a file is not there."""
    pairs = [(name, file) for name, _, file in (entry.partition("=") for entry in given)]
    if not all(file for _, file in pairs):
        raise click.UsageError("--data must be NAME=FILE, e.g. train=x.npy")
    return [(name, check_data_file(file)) for name, file in pairs]


@click.command("timeline")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--model", type=model_name, required=True, metavar="package.module:factory",
              help="A function without arguments that returns the module; FOLDER holds its parameters.")  # fmt: skip
@pick_option
@slice_options
@radius_option
@click.option("--data", multiple=True, metavar="NAME=FILE", callback=_named_files,
              help="Points whose local complexity is followed, e.g. train=x.npy; may be given again. Those of --points "
                   "by default; random points of the slice are always among them.")  # fmt: skip
@click.option("--near", type=float,
              help="Radius of the discs in which tiles are counted; 5% of the side by default. The slice's edge cuts "
                   "them: leave a margin with --pad.")  # fmt: skip
@click.option("--out", type=written_file, help="Write everything to one .timeline file.")
@plot_option
@click.option("--film", "film_path", type=written_file, help="Write a film: .gif, .webp, .html, or .mp4 with ffmpeg.")
@json_option
@click.option("--workers", type=int, help="Processes that share the checkpoints.")
def timeline_command(
    folder: str, model: str, radius: Any, data: list[tuple[str, str]], near: float | None, out: str | None,
    plot: str | None, film_path: str | None, as_json: bool, workers: int | None, **where: Any,
) -> None:  # fmt: skip
    """Follow the tiles of one slice through training.

    Tiles the slice at every checkpoint in FOLDER: .safetensors, .pt, .pth or .ckpt files with the training step as the
    last number in their name.

    \b
    Example:
      splinescope timeline run1/snapshots --model mynet:build --slice through --points x.npy --rows 0,1,2 --pad 0.2 \\
        --data train=x.npy --data test=xt.npy --radius 0.05 --out run1.timeline --plot run1.png --film run1.gif
    """
    files = dict(data) if data or where["points"] is None else {"points": where["points"]}
    import torch

    from ..complexity import timeline

    if film_path is not None:
        require("matplotlib", "plot").use("Agg")
        drawing("timeline.check_film")(film_path)
    network = read_model(model)
    if not isinstance(network, torch.nn.Module):
        raise click.UsageError("--model must be package.module:factory: checkpoints hold parameters only")
    view = make_slice(network, **where)
    like = next(network.parameters())
    sets = {name: torch.from_numpy(read_array(file, view.input_shape)).to(like) for name, file in files.items()}
    story = timeline(network, folder, view, x=sets, radius=radius, near=near, workers=workers,
                     progress=lambda share, what: note(f"{share:4.0%} {what}"))  # fmt: skip
    write(out, story.save)
    write_figure(plot, story.plot, dpi=150)
    write(film_path, lambda path: drawing("timeline.film")(story, path))
    table = {"step": story.steps.tolist(), **{name: values.tolist() for name, values in story.measures.items()}}
    rows = [[f"{value:19.6g}" for value in row] for row in zip(*table.values(), strict=True)]
    lines = ["  ".join(row) for row in ([f"{name:>19}" for name in table], *rows)]
    echo_result(table, as_json, "\n".join(lines))
