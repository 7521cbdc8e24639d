"""`python -m splinescope` is the `splinescope` command."""

from .support import interrupt


def run() -> None:
    """The command; Ctrl-C is answered before anything that takes time is loaded."""
    interrupt.watch()
    from .cli import main

    main(prog_name="splinescope")


if __name__ == "__main__":
    run()
