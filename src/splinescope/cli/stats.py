"""`splinescope stats`: a tiling file in numbers, or two side by side."""

from __future__ import annotations

import click

from ..support.errors import InputError
from ._outputs import echo_json
from .inputs import read_tiling, tiling_path


@click.command("stats")
@click.argument("file", type=tiling_path)
@click.argument("other", type=tiling_path, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(file: str, other: str | None, as_json: bool) -> None:
    """Print statistics of a tiling FILE, or of two.

    Counts, areas, shapes, slopes, folds; with OTHER, both and their ratio. A dash stands for standard input.

    \b
    Examples:
      splinescope stats net.tiling
      splinescope stats before.tiling after.tiling
      splinescope stats net.tiling --json | jq '."mean slope"'
      splinescope tessellate net.onnx --slice axes --out - | splinescope stats -
    """
    from ..tiling import compare_tilings

    if file == other == "-":
        raise InputError("only one of FILE and OTHER can come from standard input.")
    tiling = read_tiling(file)
    result = tiling.summary() if other is None else compare_tilings(tiling, read_tiling(other))
    if as_json:
        echo_json(result.as_dict())
    else:
        click.echo(str(result))
