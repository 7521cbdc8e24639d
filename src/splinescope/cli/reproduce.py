"""`splinescope reproduce`: run the experiments behind every claim."""

import importlib
import warnings
from typing import Any

import click

from ..support.errors import MissingExtraError


def _evidence() -> Any:
    """The experiments, which are a distribution of their own: no other file of this package imports it."""
    try:
        return importlib.import_module("splinescope_evidence")
    except ModuleNotFoundError as error:
        if error.name != "splinescope_evidence":
            raise  # it is there and broken: its own message is the useful one
        raise MissingExtraError(
            "the experiments are not installed: pip install splinescope-evidence "
            "(in a clone of the repository: pip install -e evidence)"
        ) from error


def _known_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [experiment_id for experiment_id in _evidence().ids() if experiment_id.startswith(incomplete)]
    except MissingExtraError:
        return []  # nothing to complete; the command itself says why


@click.command("reproduce")
@click.argument("experiment_ids", nargs=-1, metavar="[ID]...", shell_complete=_known_ids)
@click.option("--list", "list_", is_flag=True, help="List the experiments and stop.")
@click.option("--all", "all_", is_flag=True, help="Run all experiments.")
@click.option("--quick", is_flag=True, help="Small sizes, seconds each, without verdicts: shows that it runs.")
@click.option("--seed", default=0, show_default=True, help="Seed of every run; two seeds give independent results.")
@click.option("--jobs", default=1, show_default=True, help="Processes to share the experiments.")
@click.option("--fresh", is_flag=True, help="Run again even if results are there.")
@click.option("--known", type=click.Path(exists=True, dir_okay=False),
              help="Records of earlier runs, as docs/evidence.json: the same source is not run again.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False), default="reproduced", show_default=True, help="Folder.")
def reproduce_command(
    experiment_ids: tuple[str, ...], list_: bool, all_: bool, quick: bool, out: str, **chosen: Any
) -> None:
    """Reproduce the papers' figures and theorems.

    Writes JSON, PNG and a page.

    The experiments are a distribution of their own: pip install splinescope-evidence (in a clone: pip install -e
    evidence). An interrupted run resumes: results in --out made by the same source are kept.

    \b
    Examples:
      splinescope reproduce survey-fig8 --quick --out reproduced
      splinescope reproduce --all --jobs 2 --out reproduced
      splinescope reproduce --all --known docs/evidence.json --out reproduced  # what has changed
    """
    evidence = _evidence()
    if list_:
        for experiment_id in evidence.ids():
            click.echo(f"{experiment_id:28} {evidence.find(experiment_id).title}")
        return
    if bool(experiment_ids) == all_:
        raise click.UsageError("give experiment ids or --all (one of the two); --list shows the ids")
    with warnings.catch_warnings():
        # loky puts a new process in place of one whose memory has grown, and warns as of a fault; nothing is lost
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        outcomes = evidence.reproduce(
            experiment_ids or None,
            out=out,
            size="quick" if quick else "full",
            progress=lambda share, now: click.echo(f"{share:4.0%} {now}", err=True),
            **chosen,
        )
    for name, outcome in outcomes.items():
        for claim in outcome.claims:
            click.echo(f"{name}: {claim.verdict}: {claim.text} ({claim.measured})")
    click.echo(f"wrote {out}/index.html", err=True)
