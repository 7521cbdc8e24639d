"""The group of verbs, loaded lazily; bad input is one clear line on stderr and exit code 2."""

import importlib
import sys

import click

from .. import __version__
from ..support import interrupt
from ..support.errors import SplinescopeError, did_you_mean

_FILES = {
    "generators": ("volume",),
    "landscape": ("landscape",),
    "near_data": ("complexity", "normalization", "representation"),
    "pages": ("compare", "report"),
    "reproduce": ("reproduce",),
    "running": ("studio", "warmup"),
    "tilings": ("show", "stats", "surface", "tessellate"),
    "timeline": ("timeline",),
    "verify": ("verify",),
}
VERBS = {verb: f"splinescope.cli.{file}" for file, verbs in _FILES.items() for verb in verbs}
"""Verb -> module that defines a click command named `VERB_command`."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(VERBS[name]), f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            ctx.fail(f"No such command {name!r}{did_you_mean(name, VERBS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            with interrupt.at_work():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(interrupt.LINE, err=True)
            ctx.exit(interrupt.CODE)
        except BrokenPipeError:
            raise  # the reader of a pipe has left: click ends quietly
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "splinescope"
            click.echo(f"Error: {' '.join(error.format_message().split())} (see {where} --help)", err=True)
            ctx.exit(2)
        except (SplinescopeError, OSError) as error:
            click.echo(f"Error: {_in_words_of_the_command_line(error)}", err=True)
            ctx.exit(2)


def _in_words_of_the_command_line(error: Exception) -> str:
    outputs = sys.modules.get("splinescope.network.outputs")  # loaded where one was raised: torch waits otherwise
    if outputs is not None and isinstance(error, outputs.SeveralOutputs):
        return str(outputs.SeveralOutputs(error.listed, error.first, "--pick {0}"))
    return str(error)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="splinescope")
def main() -> None:
    """A microscope for the geometry of deep networks."""
