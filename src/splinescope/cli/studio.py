"""`splinescope studio`: the page on which networks fold."""

from __future__ import annotations

import click


@click.command("studio")
@click.argument("path", required=False, type=click.Path(exists=True), metavar="[FILE|FOLDER]")
@click.option("--factory", help="package.module:function that makes the module for .safetensors weights.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen on 127.0.0.1; any by default.")
@click.option("--no-browser", is_flag=True, help="Only print the page's address.")
@click.option("--at", default="", help="Where the page opens: what follows # in its address, e.g. story=batch-norm.")
def command(path: str | None, factory: str | None, port: int, no_browser: bool, at: str) -> None:
    """Open the studio: a page on which small networks are trained and their exact tiles move. Ctrl-C ends it.

    FILE or FOLDER (ONNX, .nnet, tilings, timelines; with --factory weights and folders of checkpoints; .npy or .csv
    data) goes under its microscope; nothing outside of it is opened.

    \b
    Examples:
      splinescope studio
      splinescope studio net.onnx
      splinescope studio runs/ --factory my_models:mnist_net
      splinescope studio --at story=batch-norm
    """
    from ..studio import serve

    if path is not None and not at:
        at = "view=microscope"

    def announce(address: str) -> None:
        click.echo(f"splinescope studio: {address}\nCtrl-C ends it.")

    serve(path, factory=factory, port=port, browser=not no_browser, at=at, announce=announce)
