"""`splinescope warmup`: compile ahead what the first tilings would wait for."""

from __future__ import annotations

import click


@click.command("warmup")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(quiet: bool) -> None:
    """Compile the kernels of lines, planes and solids, once per machine: no later tiling waits for them.

    \b
    Example:
      splinescope warmup
    """
    from ..tiling.warmup import warm_up

    warm_up(progress=False if quiet else None)
    click.echo("The kernels are compiled, and kept for every later run.")
