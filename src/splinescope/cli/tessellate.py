"""`splinescope tessellate`: the exact tiling of a network on a slice."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..support.errors import InputError
from ._outputs import check_page, echo_json, note, picture_options, write_pictures, write_to_stdout, written_or_piped
from ._slices import make_slice, slice_options
from .inputs import MODEL_HELP, model_arguments, read_model


@click.command("tessellate", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@slice_options
@click.option(
    "--out",
    type=written_or_piped,
    help="Write the tiling (safetensors; `show` and `stats` read it); - writes it to stdout, in place of the summary.",
)
@picture_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--tolerance", type=float, help="Tile a network within this much of one with smooth activations.")
@click.option("--rtol", default=1e-12, show_default=True, help="Relative size below which a pre-activation is zero.")
@click.option("--max-tiles", type=int, help="Stop with an error beyond this many tiles.")
@click.option("--time-limit", type=float, help="Stop with an error after this many seconds.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option("--workers", type=int, help="Split the slice among this many processes; for tilings of minutes.")
@click.option("--folder", type=click.Path(file_okay=False),
              help="With --workers: keep finished parts here; the same call resumes.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str, weights: str | None, trust: bool, out: str | None, plot: str | None, html: str | None, color: str,
    as_json: bool, tolerance: float | None,
    rtol: float, max_tiles: int | None, time_limit: float | None, threads: int | None,
    workers: int | None, folder: str | None, quiet: bool, **slice_arguments: Any,
) -> None:  # fmt: skip
    """Tile MODEL exactly on a slice of its input space.

    Prints a summary. With --tolerance it takes smooth networks, too.

    \b
    Examples:
      splinescope tessellate acas.onnx --slice axes --axes 0,1 --low -1 --high 1 --out acas.tiling
      splinescope tessellate my_models:mnist_net --weights net.safetensors \\
          --slice through --points digits.npy --rows 3,14,15 --pad 0.1 --plot net.png --html net.html
      splinescope tessellate net.onnx --slice segment --points two.csv --json | jq .tiles
      splinescope tessellate net.onnx --slice axes --out - | splinescope show - --plot net.png
    """
    from ..tiling import tessellate

    piped = out == "-"
    if piped and as_json:
        raise InputError("--out - and --json both write to stdout: choose one.")
    if piped and sys.stdout.isatty():
        raise InputError("--out - writes a file of numbers to stdout: pipe it on, or name a file.")
    network = read_model(model, weights, trust=trust)
    view = make_slice(network, **slice_arguments)
    check_page(html, view.dimension)
    tiling = tessellate(
        network, view, tolerance=tolerance, rtol=rtol, max_tiles=max_tiles, time_limit=time_limit, threads=threads,
        workers=workers, folder=folder, progress=not quiet,
    )  # fmt: skip
    if tiling.approximation is not None:
        note(tiling.approximation.assurance)
    if tiling.count == 1 and tiling.sites:
        note("one tile: no fold meets this slice (inputs of a .nnet file are in their own units, such as feet)")
    if out is not None and not piped:
        tiling.save(out)
        note(f"wrote {out}")
    write_pictures(tiling, plot=plot, html=html, color=color, title=model)
    if piped:
        write_to_stdout(tiling)
    elif as_json:
        echo_json(tiling.summary().as_dict())
    else:
        click.echo(str(tiling.summary()))
