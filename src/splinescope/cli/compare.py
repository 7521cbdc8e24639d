"""`splinescope compare`: reports on several networks side by side."""

from __future__ import annotations

from pathlib import Path

import click

from .._errors import InputError
from ._outputs import check_outputs, echo_json, note
from .inputs import block_options, listed, pick_option, read_array, read_labels, read_model, trust_option


@click.command(
    "compare", epilog="MODEL is an .onnx or .nnet file, package.module:factory, or a .pt2 archive with --trust."
)
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1, required=True)
@trust_option
@pick_option
@block_options
@click.option("--seed", default=0, show_default=True, help="Seed of everything random, the same for all.")
@click.option("--out", type=click.Path(dir_okay=False), default="comparison.html", show_default=True,
              help="The page; the numbers go beside it as .json.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of a table.")
def command(
    models: tuple[str, ...], trust: bool, data: str, labels: str | None, shape: tuple[int, ...] | None,
    include: str | None, exclude: str | None, seed: int, out: str, as_json: bool,
) -> None:  # fmt: skip
    """Measure two or more networks on the same data, and write one page with a column for each.

    \b
    Examples:
      splinescope compare plain.onnx normed.onnx --data x.npy --labels y.npy
      splinescope compare before=run/first.onnx after=run/last.onnx --data x.npy --include complexity,tiles
    """
    import torch

    from ..network import SplineNetwork
    from ..reports import compare_models

    check_outputs(out)
    named: dict[str, str] = {}
    for given in models:
        name, _, path = ("", "", given) if Path(given).exists() else given.rpartition("=")
        if (name or path) in named:
            raise InputError(f"two networks are called {name or path!r}: write NAME=MODEL for one of them.")
        named[name or path] = path
    networks = {name: read_model(path, trust=trust) for name, path in named.items()}
    known = next((net.input_shape for net in networks.values() if isinstance(net, SplineNetwork)), None)
    points = torch.from_numpy(read_array(data, shape or known)).float()
    targets = None if labels is None else read_labels(labels)
    found = compare_models(
        networks, points, targets, out=out, seed=seed, include=listed(include), exclude=listed(exclude) or ()
    )
    note(f"wrote {out} and its numbers as .json")
    if as_json:
        echo_json(found.records())
    else:
        click.echo(found.summary())
