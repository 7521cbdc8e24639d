"""`splinescope warmup`: compile ahead what the first tilings would wait for."""

from __future__ import annotations

import click


@click.command("warmup")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(quiet: bool) -> None:
    """Compile the kernels once, so that no tiling waits.

    They serve lines, planes, solids and the tiles of single inputs, and are kept on this machine.

    \b
    Example:
      splinescope warmup
    """
    from torch import nn

    from ..space import explore
    from ..tiling.warmup import warm_up

    warm_up(progress=False if quiet else None)
    explore(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), (0.0, 0.0), progress=False)
    click.echo("The kernels are compiled, and kept for every later run.")
