"""`python -m splinescope` is the `splinescope` command."""

from .cli import main

main(prog_name="splinescope")
