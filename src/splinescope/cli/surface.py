"""`splinescope surface`: a level set of a network on a 3-D box, as a mesh."""

from __future__ import annotations

import click

from ..support.errors import InputError
from ._outputs import echo_numbers, note, write_figure, written_file, written_picture
from ._slices import numbers_per_axis
from .inputs import MODEL_HELP, model_arguments, read_model


@click.command("surface", epilog=f"MODEL is {MODEL_HELP}, with three inputs.")
@model_arguments
@click.option("--low", default="-1", show_default=True, help="Lower ends of the box, one number or one per input.")
@click.option("--high", default="1", show_default=True, help="Upper ends.")
@click.option("--level", default=0.0, show_default=True, help="The value of the output on the surface.")
@click.option("--output", default=0, show_default=True, help="Which output.")
@click.option("--out", type=written_file, help="Write the mesh: .ply, .obj, .stl or .glb.")
@click.option("--plot", type=written_picture, help="Write a picture: .png, .svg or .pdf.")
@click.option(
    "--up", type=click.Choice(["x", "y", "z"]), default="z", show_default=True, help="The picture's vertical."
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.option("--max-tiles", type=int, help="Stop with an error beyond this many tiles at once.")
@click.option("--time-limit", type=float, help="Stop with an error after this many seconds.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    model: str, weights: str | None, trust: bool, low: str, high: str, level: float, output: int, out: str | None,
    plot: str | None, up: str, as_json: bool, max_tiles: int | None, time_limit: float | None, threads: int | None,
    quiet: bool,
) -> None:  # fmt: skip
    """Write the exact surface on which MODEL takes a value.

    That is the shape of a signed-distance or occupancy network.

    \b
    Example:
      splinescope surface chair.onnx --low -1 --high 1 --out chair.ply --plot chair.png --up y
    """
    from ..space import level_set
    from ..tiling.measures.surfaces import FORMATS

    if out is not None and not out.lower().endswith(FORMATS):
        raise InputError(f"--out must end in {', '.join(FORMATS)}, got {out!r}.")
    ends = tuple(numbers_per_axis(text, name, 3) for text, name in ((low, "--low"), (high, "--high")))
    network = read_model(model, weights, trust=trust)
    mesh = level_set(
        network, ends, level, output=output, max_tiles=max_tiles, time_limit=time_limit, threads=threads,
        progress=not quiet,
    )  # fmt: skip
    if not len(mesh):
        note(f"no surface: output {output} does not take the value {level:g} in the box")
    if out is not None:
        mesh.save(out)
        note(f"wrote {out}")
    if plot is not None:

        def draw() -> object:
            from ..plot.solid import plot_mesh

            return plot_mesh(mesh, axes={"x": "yzx", "y": "zxy", "z": "xyz"}[up])

        write_figure(draw, plot)
    numbers: dict[str, float | int | bool | str | None] = {
        "faces": len(mesh), "vertices": len(mesh.vertices), "area": mesh.area, "closed": mesh.closed,
        "components": mesh.components, "euler": mesh.euler, "volume": mesh.volume if mesh.closed else None,
        "certainty": mesh.certainty,
    }  # fmt: skip
    echo_numbers(numbers, as_json)
