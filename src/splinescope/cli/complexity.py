"""`splinescope complexity`: how many folds pass near data points."""

from __future__ import annotations

from typing import Any

import click

from ._outputs import echo_numbers, note, written_file
from .inputs import MODEL_HELP, data_option, model_arguments, radius_option, read_model, read_rows, shape_option


@click.command("complexity", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@radius_option
@click.option("--method", type=click.Choice(["frame", "distance", "exact"]), default="frame", show_default=True,
              help="frame: signs at the vertices x +- r v; distance: |z| / |grad z| <= r; exact: tiles of a random "
                   "plane.")  # fmt: skip
@click.option("--directions", type=int, help="frame: number of directions; 25, or the input size if less.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random directions.")
@shape_option
@click.option("--out", type=written_file, help="Write the counts, one row per point, to a .csv file.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    model: str, weights: str | None, trust: bool, data: str, radius: Any, method: Any, directions: int | None,
    seed: int, shape: tuple[int, ...] | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Count the folds of MODEL that pass near each data point.

    \b
    Examples:
      splinescope complexity net.onnx --data x.npy
      splinescope complexity mynet:build --weights w.safetensors --data x.npy --radius 0.05 --method distance --json
    """
    import torch

    from ..complexity import local_complexity
    from ..complexity.neighborhoods import frame_reach

    network = read_model(model, weights, trust=trust)
    points = read_rows(data, shape, network)
    generator = torch.Generator().manual_seed(seed)
    found = local_complexity(network, points, radius=radius, method=method, directions=directions, generator=generator)
    if out is not None:
        _write_table(found, out)
        note(f"wrote {out}")
    totals = found.total.double()
    result: dict[str, Any] = {
        "points": len(points),
        "mean folds": float(totals.mean()),
        "least folds": int(totals.min()),
        "most folds": int(totals.max()),
        "neurons": sum(site.neurons for site in found.sites),
        "radius": found.radius,
        "share of neurons": float(found.share.mean()),
        "neighbourhood": found.region,
        "what": found.what,
    }
    means = found.counts.double().mean(0).tolist()
    result |= {f"mean folds, {name}": mean for name, mean in zip(found.names, means, strict=True)}
    if found.tiles is not None:
        result["mean tiles"] = float(found.tiles.double().mean())
    if method == "frame":
        result["reach along a normal"] = found.radius * frame_reach(found.input_size, found.dimension)
    result["share of points where Zaslavsky's bound is certain"] = float(found.bound_holds.double().mean())
    result["mean log2 of the bound on tiles"] = float(found.log2_tile_bound.mean())
    echo_numbers(result, as_json)


def _write_table(found: Any, path: str) -> None:
    import csv

    from ..support.files import replacing

    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        tiles = [] if found.tiles is None else ["tiles"]
        writer.writerow(["point", "folds", *found.names, *tiles])
        for i, row in enumerate(found.counts.tolist()):
            extra = [] if found.tiles is None else [int(found.tiles[i])]
            writer.writerow([i, sum(row), *row, *extra])
