"""The group of verbs, loaded lazily; bad input is one clear line on stderr and exit code 2."""

from __future__ import annotations

import importlib

import click

from .. import __version__, _interrupt
from .._errors import SplinescopeError

VERBS: dict[str, str] = {
    "normalization": "splinescope.cli.normalization",
    "representation": "splinescope.cli.representation",
    "meanfield": "splinescope.cli.meanfield",
    "compare": "splinescope.cli.compare",
    "landscape": "splinescope.cli.landscape",
    "complexity": "splinescope.cli.complexity",
    "report": "splinescope.cli.report",
    "reproduce": "splinescope.cli.reproduce",
    "timeline": "splinescope.cli.timeline",
    "sample": "splinescope.cli.sample",
    "show": "splinescope.cli.show",
    "stats": "splinescope.cli.stats",
    "surface": "splinescope.cli.surface",
    "studio": "splinescope.cli.studio",
    "tessellate": "splinescope.cli.tessellate",
    "tokens": "splinescope.cli.tokens",
    "volume": "splinescope.cli.volume",
}
"""verb -> module that defines a click command named `command`."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[name]).command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _interrupt.at_work():
                return self._invoke(ctx)
        except KeyboardInterrupt:
            click.echo(_interrupt.LINE, err=True)
            ctx.exit(_interrupt.CODE)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of a pipe has left: click ends quietly
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "splinescope"
            click.echo(f"Error: {' '.join(error.format_message().split())} (see {where} --help)", err=True)
            ctx.exit(2)
        except (SplinescopeError, OSError) as error:
            click.echo(f"Error: {_told(error)}", err=True)
            ctx.exit(2)


def _told(error: Exception) -> str:
    """An error in the words of the command line."""
    from ..network.outputs import SeveralOutputs  # torch is loaded already where one was raised

    if isinstance(error, SeveralOutputs):
        return str(SeveralOutputs(error.listed, error.first, "--pick {0}"))
    return str(error)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="splinescope")
def main() -> None:
    """A microscope for the geometry of deep networks."""
