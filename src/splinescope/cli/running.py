"""`splinescope studio` opens the page on which networks fold; `warmup` compiles what first tilings would wait for."""

import os
import sys

import click

from ._outputs import quiet_option


@click.command("studio")
@click.argument("path", required=False, type=click.Path(exists=True), metavar="[FILE|FOLDER]")
@click.option("--factory", help="package.module:function that makes the module for .safetensors weights.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen on 127.0.0.1; any by default.")
@click.option("--no-browser", is_flag=True, help="Only print the page's address.")
@click.option("--at", default="", help="Where the page opens: what follows # in its address, e.g. story=batch-norm.")
@click.option("--files", type=click.Path(file_okay=False), help="Write the playground into a folder, for any web host.")
def studio_command(
    path: str | None, factory: str | None, port: int, no_browser: bool, at: str, files: str | None
) -> None:
    """Open the studio: networks train while their tiles move.

    It is a page in your browser; Ctrl-C ends it.

    FILE or FOLDER goes under the microscope: ONNX, .nnet, tilings, timelines, .npy or .csv data; with --factory also
    weights and folders of checkpoints. Nothing outside it is opened.

    \b
    Examples:
      splinescope studio
      splinescope studio net.onnx
      splinescope studio runs/ --factory my_models:mnist_net
      splinescope studio --at story=batch-norm
      splinescope studio --files playground      # needs no server: networks are trained in the browser
    """
    if files is not None:
        from ..studio.files import write_playground

        click.echo(f"wrote {write_playground(files)}")
        return
    from ..studio import serve

    if path is not None and not at:
        at = "view=microscope"

    def announce(address: str) -> None:
        click.echo(f"splinescope studio: {address}\nCtrl-C ends it.")

    serve(path, factory=factory, port=port, browser=not no_browser, at=at, announce=announce)
    sys.stdout.flush()
    os._exit(0)  # all is closed and removed: taking torch apart, or waiting for a job's thread, would take seconds


@click.command("warmup")
@quiet_option
def warmup_command(quiet: bool) -> None:
    """Compile the kernels once, so that no tiling waits.

    They serve tilings, single inputs, properties, pages and tokens, and are kept on this machine.

    \b
    Example:
      splinescope warmup
    """
    import torch

    from ..guarantees import output_range
    from ..plot.frame import tiling_frame
    from ..smooth import token_geometry
    from ..space import level_set
    from ..space.search import load_once
    from ..tiling.warmup import warm_up

    tokens = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    others = {
        "single inputs": lambda tilings: load_once(),
        "properties": lambda tilings: output_range(tilings[2].network, tilings[2].view),
        "level sets": lambda tilings: level_set(tilings[3].network, tilings[3].view),
        "pages": lambda tilings: tiling_frame(tilings[2], max_tiles=2),
        "tokens": lambda tilings: token_geometry(tokens, torch.zeros(1, 3, 2)),
    }
    warm_up(False if quiet else None, others)
    click.echo("The kernels are compiled, and kept for every later run.")
