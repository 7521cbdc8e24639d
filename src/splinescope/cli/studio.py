"""`splinescope studio`: the page on which networks fold."""

from __future__ import annotations

import click


@click.command("studio")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen on 127.0.0.1; any by default.")
@click.option("--no-browser", is_flag=True, help="Only print the page's address.")
@click.option("--at", default="", help="Where the page opens: what follows # in its address, e.g. story=batch-norm.")
def command(port: int, no_browser: bool, at: str) -> None:
    """Open the studio: a page on which small networks are trained and their exact tiles move. Ctrl-C ends it.

    \b
    Examples:
      splinescope studio
      splinescope studio --at story=batch-norm
    """
    from ..studio import serve

    def announce(address: str) -> None:
        click.echo(f"splinescope studio: {address}\nCtrl-C ends it.")

    serve(port=port, browser=not no_browser, at=at, announce=announce)
