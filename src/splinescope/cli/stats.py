"""`splinescope stats`: a tiling file in numbers, or two side by side."""

from __future__ import annotations

import click

from ._outputs import echo_json


@click.command("stats")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("other", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(file: str, other: str | None, as_json: bool) -> None:
    """Statistics of a tiling FILE: counts, areas, shapes, slopes, folds; with OTHER, both and their ratio.

    \b
    Examples:
      splinescope stats net.tiling
      splinescope stats before.tiling after.tiling
      splinescope stats net.tiling --json | jq '."mean slope"'
    """
    from ..tiling import compare, load_tiling

    tiling = load_tiling(file)
    result = tiling.summary() if other is None else compare(tiling, load_tiling(other))
    if as_json:
        echo_json(result.as_dict())
    else:
        click.echo(str(result))
