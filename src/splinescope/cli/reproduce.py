"""`splinescope reproduce`: run the experiments behind every claim."""

from __future__ import annotations

import click

from .. import evidence


@click.command("reproduce")
@click.argument("experiment_ids", nargs=-1, metavar="[ID]...")
@click.option("--list", "list_", is_flag=True, help="List the experiments and stop.")
@click.option("--all", "all_", is_flag=True, help="Run all experiments.")
@click.option("--quick", is_flag=True, help="Small sizes: under a minute each.")
@click.option("--seed", default=0, show_default=True, help="Seed handed to every run.")
@click.option("--out", type=click.Path(file_okay=False), default="evidence", show_default=True, help="Folder to write.")
def command(experiment_ids: tuple[str, ...], list_: bool, all_: bool, quick: bool, seed: int, out: str) -> None:
    """Reproduce figures and theorems of the four documents; writes JSON, PNG and a page.

    Example: splinescope reproduce survey-fig8 --quick --out evidence
    """
    if list_:
        for experiment_id in evidence.ids():
            click.echo(f"{experiment_id:28} {evidence.find(experiment_id).title}")
        return
    if bool(experiment_ids) == all_:
        raise click.UsageError("give experiment ids or --all (one of the two); --list shows the ids")
    outcomes = evidence.reproduce(
        experiment_ids or None,
        out=out,
        size="quick" if quick else "full",
        seed=seed,
        progress=lambda name, fraction, what: click.echo(f"{name}: {fraction:4.0%} {what}", err=True),
    )
    for name, outcome in outcomes.items():
        for claim in outcome.claims:
            click.echo(f"{name}: {claim.verdict}: {claim.text} ({claim.measured})")
    click.echo(f"wrote {out}/index.html", err=True)
