"""`splinescope tessellate`, `show`, `stats` and `surface`: tilings and level sets made, drawn and measured."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..support.drawing import drawing
from ..support.errors import InputError
from ._outputs import (
    check_page,
    echo_result,
    facts,
    json_option,
    note,
    options,
    picture_options,
    plot_option,
    quiet_option,
    write,
    write_figure,
    write_pictures,
    written_file,
)
from .inputs import MODEL_HELP, make_slice, model_arguments, numbers, per_axis, read_model, slice_options

_limit_options = options(
    click.option("--max-tiles", type=int, help="Stop with an error beyond this many tiles."),
    click.option("--time-limit", type=float, help="Stop with an error after this many seconds."),
    click.option("--threads", type=int, help="Threads; all cores by default."),
    quiet_option,
)
_tiling_path = click.Path(exists=True, dir_okay=False)


@click.command("tessellate", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@slice_options
@click.option("--out", type=written_file, help="Write the tiling (safetensors; `show` and `stats` read it).")
@picture_options
@json_option
@click.option("--tolerance", type=float, help="Largest error of the outputs, for smooth activations (GELU, tanh, ...).")
@_limit_options
@click.option("--workers", type=int, help="Split the slice among this many processes; for tilings of minutes.")
@click.option("--folder", type=click.Path(file_okay=False),
              help="With --workers: keep finished parts here; the same call resumes.")  # fmt: skip
def tessellate_command(
    model: str, weights: str | None, out: str | None, plot: str | None, html: str | None, color: str, as_json: bool,
    tolerance: float | None, max_tiles: int | None, time_limit: float | None, threads: int | None, quiet: bool,
    workers: int | None, folder: str | None, **slice_arguments: Any,
) -> None:  # fmt: skip
    """Tile MODEL exactly on a slice of its input space.

    Prints a summary. With --tolerance it takes smooth networks, too.

    \b
    Examples:
      splinescope tessellate acas.onnx --slice axes --axes 0,1 --low -1 --high 1 --out acas.tiling
      splinescope tessellate my_models:mnist_net --weights net.safetensors \\
          --slice through --points digits.npy --rows 3,14,15 --pad 0.1 --plot net.png --html net.html
      splinescope tessellate net.onnx --slice segment --points two.csv --json | jq .tiles
    """
    from ..tiling import tessellate

    network = read_model(model, weights)
    view = make_slice(network, **slice_arguments)
    check_page(html, view.dimension)
    tiling = tessellate(
        network, view, tolerance=tolerance, max_tiles=max_tiles, time_limit=time_limit, threads=threads,
        workers=workers, folder=folder, progress=not quiet,
    )  # fmt: skip
    if tiling.approximation is not None:
        note(tiling.approximation.assurance)
    if tiling.count == 1 and tiling.sites:
        note("one tile: no fold meets this slice (inputs of a .nnet file are in their own units, such as feet)")
    write(out, tiling.save)
    write_pictures(tiling, plot=plot, html=html, color=color, title=model)
    summary = tiling.summary()
    echo_result(summary.as_dict(), as_json, str(summary))


@click.command("show")
@click.argument("file", type=_tiling_path)
@picture_options
@click.option("--check", is_flag=True, help="Verify the invariants; exit code 1 if one fails.")
@json_option
def show_command(file: str, plot: str | None, html: str | None, color: str, check: bool, as_json: bool) -> None:
    """Show, draw or check a tiling FILE.

    With --html writes a page to explore it.

    \b
    Examples:
      splinescope show net.tiling
      splinescope show net.tiling --plot net.pdf --color class
      splinescope show net.tiling --html net.html --check
    """
    from ..tiling import load_tiling

    tiling = load_tiling(file)
    check_page(html, tiling.dimension)
    found = {
        "tiles": tiling.count,
        "vertices": len(tiling.vertices),
        "dimension": tiling.dimension,
        "slice size": tiling.view.size,
        "input shape": "x".join(map(str, tiling.view.input_shape)),
        "outputs": None if tiling.values is None else tiling.values.shape[1],
        "ending": tiling.ending,
        "rtol": tiling.rtol,
        "complete": tiling.complete,
        "fingerprint": tiling.fingerprint,
    }
    sites = [("site", f"{s.path or '-'}: {s.op}, {s.units:,} units, depth {s.depth}") for s in tiling.sites]
    records = {**found, "sites": [asdict(site) for site in tiling.sites]}
    echo_result(records, as_json, facts([*found.items(), *sites]))
    write_pictures(tiling, plot=plot, html=html, color=color, title=Path(file).stem)
    if check:
        report = tiling.check()
        click.echo(str(report), err=as_json)
        if not report.ok:
            raise SystemExit(1)


@click.command("stats")
@click.argument("file", type=_tiling_path)
@click.argument("other", type=_tiling_path, required=False)
@json_option
def stats_command(file: str, other: str | None, as_json: bool) -> None:
    """Print statistics of a tiling FILE, or of two.

    Counts, areas, shapes, slopes, folds; with OTHER, both and their ratio.

    \b
    Examples:
      splinescope stats net.tiling
      splinescope stats before.tiling after.tiling
      splinescope stats net.tiling --json | jq '."mean slope"'
    """
    from ..tiling import compare_tilings, load_tiling

    tiling = load_tiling(file)
    result = tiling.summary() if other is None else compare_tilings(tiling, load_tiling(other))
    echo_result(result.as_dict(), as_json, str(result))


@click.command("surface", epilog=f"MODEL is {MODEL_HELP}, with three inputs.")
@model_arguments
@click.option("--low", type=numbers, default="-1", show_default=True,
              help="Lower ends of the box, one number or one per input.")  # fmt: skip
@click.option("--high", type=numbers, default="1", show_default=True, help="Upper ends.")
@click.option("--level", default=0.0, show_default=True, help="The value of the output on the surface.")
@click.option("--output", default=0, show_default=True, help="Which output.")
@click.option("--out", type=written_file, help="Write the mesh: .ply, .obj, .stl or .glb.")
@plot_option
@click.option("--up", type=click.Choice(["x", "y", "z"]), default="z", show_default=True,
              help="The picture's vertical.")  # fmt: skip
@json_option
@_limit_options
def surface_command(
    model: str, weights: str | None, low: tuple[float, ...], high: tuple[float, ...], level: float, output: int,
    out: str | None, plot: str | None, up: str, as_json: bool, quiet: bool, **limits: Any,
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
    box = per_axis(low, "--low", 3), per_axis(high, "--high", 3)
    mesh = level_set(read_model(model, weights), box, level, output=output, progress=not quiet, **limits)
    if not len(mesh):
        note(f"no surface: output {output} does not take the value {level:g} in the box")
    write(out, mesh.save)
    write_figure(plot, lambda: drawing("solid.plot_mesh")(mesh, axes={"x": "yzx", "y": "zxy", "z": "xyz"}[up]))
    found: dict[str, Any] = {
        "faces": len(mesh), "vertices": len(mesh.vertices), "area": mesh.area, "closed": mesh.closed,
        "components": mesh.components, "euler": mesh.euler, "volume": mesh.volume if mesh.closed else None,
        "certainty": mesh.certainty,
    }  # fmt: skip
    echo_result(found, as_json)
