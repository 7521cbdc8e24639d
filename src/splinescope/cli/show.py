"""`splinescope show`: what is in a tiling file, as text, picture or page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._outputs import check_page, echo_facts, echo_json, picture_options, write_pictures
from .inputs import read_tiling, tiling_path

if TYPE_CHECKING:
    from ..tiling import Tiling


@click.command("show")
@click.argument("file", type=tiling_path)
@picture_options
@click.option("--check", is_flag=True, help="Verify the invariants; exit code 1 if one fails.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(file: str, plot: str | None, html: str | None, color: str, check: bool, as_json: bool) -> None:
    """Show, draw or check a tiling FILE.

    With --html writes a page to explore it; a dash stands for standard input.

    \b
    Examples:
      splinescope show net.tiling
      splinescope show net.tiling --plot net.pdf --color class
      splinescope show net.tiling --html net.html --check
    """
    tiling = read_tiling(file)
    check_page(html, tiling.dimension)
    facts = _facts(tiling)
    if as_json:
        echo_json({**facts, "sites": [asdict(site) for site in tiling.sites]})
    else:
        sites = [("site", f"{s.path or '-'}: {s.op}, {s.units:,} units, depth {s.depth}") for s in tiling.sites]
        echo_facts([*facts.items(), *sites])
    write_pictures(tiling, plot=plot, html=html, color=color, title=Path(file).stem if file != "-" else "tiling")
    if check:
        report = tiling.check()
        click.echo(str(report), err=as_json)
        if not report.ok:
            raise SystemExit(1)


def _facts(tiling: Tiling) -> dict[str, Any]:
    return {
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
