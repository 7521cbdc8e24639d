"""`splinescope meanfield`: run a two-layer batch-norm network as particles, or one of the paper's figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from .._checks import require


@click.command("meanfield")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="TOML file: data, network, flow.")
@click.option("--figure", type=click.IntRange(1, 3), help="Reproduce Figure 1, 2 or 3 of the paper.")
@click.option("--quick", is_flag=True, help="With --figure: small sizes.")
@click.option("--film", type=click.Choice(["gif", "html"]), help="With --config, in two dimensions: film the neurons.")
@click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
@click.option("--out", type=click.Path(file_okay=False), default="meanfield", show_default=True, help="Folder.")
def command(config: str | None, figure: int | None, quick: bool, film: str | None, json_: bool, out: str) -> None:
    """Train a two-layer batch-norm network as particles on a manifold.

    Writes trajectory.npz (times, a, b, risks) and, in two dimensions, neurons.png; or the figure with its
    numbers.

    \b
    Examples:
      splinescope meanfield --figure 1 --quick --out figures
      splinescope meanfield --config ellipse.toml --film gif --out run
    """
    if (config is None) == (figure is None):
        raise click.UsageError("give --config FILE or --figure N (one of the two)")
    if film is not None and config is None:
        raise click.UsageError("--film goes with --config")
    if quick and figure is None:
        raise click.UsageError("--quick goes with --figure")
    if figure is not None:
        _figure(figure, quick, json_, out)
    else:
        assert config is not None
        _config(config, film, json_, out)


def _figure(figure: int, quick: bool, json_: bool, out: str) -> None:
    from .. import evidence

    name = f"meanfield-fig{figure}"
    outcome = evidence.reproduce(
        [name],
        out=out,
        size="quick" if quick else "full",
        progress=lambda fraction, what: click.echo(f"{fraction:4.0%} {what}", err=True),
    )[name]
    if json_:
        click.echo(json.dumps([asdict(claim) for claim in outcome.claims]))
    else:
        for claim in outcome.claims:
            click.echo(f"{claim.verdict}: {claim.text} ({claim.measured})")
    click.echo(f"wrote {out}/{name}.png", err=True)


def _config(config: str, film: str | None, json_: bool, out: str) -> None:
    import numpy as np

    from ..meanfield.config import read_config

    setup = read_config(config)
    flat = setup.data.dimension == 2
    if film is not None and not flat:
        raise click.UsageError(f"--film needs two-dimensional data, got d = {setup.data.dimension}")
    run = setup.run()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "trajectory.npz", times=run.times, a=run.a.numpy(), b=run.b.numpy(), risks=run.risks)
    written = ["trajectory.npz"]
    if flat:
        from ..plot.meanfield import animate_neurons, plot_neurons

        pyplot = require("matplotlib.pyplot", "plot")
        figure, ax = pyplot.subplots(layout="constrained")
        plot_neurons(run, ax=ax)
        figure.savefig(folder / "neurons.png", dpi=150)
        pyplot.close(figure)
        written.append("neurons.png")
        if film is not None:
            written.append(animate_neurons(run, folder / f"neurons.{film}").name)
    summary = {
        "dynamics": run.dynamics,
        "width": run.b.shape[1],
        "time": float(run.times[-1]),
        "steps": run.steps,
        "loss_start": float(run.risks[0]),
        "loss_end": float(run.risks[-1]),
    }
    click.echo(json.dumps(summary) if json_ else "\n".join(f"{k}: {v}" for k, v in summary.items()))
    click.echo(f"wrote {', '.join(str(folder / name) for name in written)}", err=True)
