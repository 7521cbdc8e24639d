"""`splinescope tessellate`: the exact tiling of a network on a slice."""

from __future__ import annotations

from typing import Any

import click

from ._inputs import MODEL_HELP, load_model, make_slice, model_arguments, slice_options
from ._outputs import check_outputs, echo_json, note, picture_options, write_pictures


@click.command("tessellate", epilog=MODEL_HELP)
@model_arguments
@slice_options
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write the tiling (safetensors; `show` and `stats` read it)."
)
@picture_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--rtol", default=1e-12, show_default=True, help="Relative size below which a pre-activation is zero.")
@click.option("--max-tiles", type=int, help="Stop with an error beyond this many tiles.")
@click.option("--time-limit", type=float, help="Stop with an error after this many seconds.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str, weights: str | None, trust: bool, out: str | None, plot: str | None, html: str | None, color: str,
    as_json: bool, rtol: float, max_tiles: int | None, time_limit: float | None, threads: int | None, quiet: bool,
    **slice_arguments: Any,
) -> None:  # fmt: skip
    """Tile MODEL on a slice of its input space, exactly; prints a summary.

    \b
    Examples:
      splinescope tessellate acas.onnx --slice axes --axes 0,1 --low -1 --high 1 --out acas.tiling
      splinescope tessellate my_models:mnist_net --weights net.safetensors \\
          --slice through --points digits.npy --rows 3,14,15 --pad 0.1 --plot net.png --html net.html
      splinescope tessellate net.onnx --slice segment --points two.csv --json | jq .tiles
    """
    from ..tiling import tessellate

    check_outputs(out, html, plot=plot)
    network = load_model(model, weights=weights, trust=trust)
    view = make_slice(network, **slice_arguments)
    tiling = tessellate(
        network, view, rtol=rtol, max_tiles=max_tiles, time_limit=time_limit, threads=threads, progress=not quiet
    )
    if out is not None:
        tiling.save(out)
        note(f"wrote {out}")
    write_pictures(tiling, plot=plot, html=html, color=color, title=model)
    summary = tiling.summary()
    if as_json:
        echo_json(summary.as_dict())
    else:
        click.echo(str(summary))
