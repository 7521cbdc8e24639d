"""`python -m splinescope` is the `splinescope` command."""

from . import _interrupt


def run() -> None:
    """The command; Ctrl-C is answered before anything that takes time is loaded."""
    _interrupt.watch()
    from .cli import main

    main(prog_name="splinescope")


if __name__ == "__main__":
    run()
