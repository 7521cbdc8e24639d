"""`splinescope tokens`: where the tokens of a text lie among the folds of a language model."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from .._errors import InputError
from ._inputs import model_arguments, read_model
from ._outputs import check_outputs, echo_json, note


@click.command("tokens", epilog="MODEL is package.module:factory, with --weights for trained ones.")
@model_arguments
@click.option("--text", required=True, type=click.Path(exists=True, dir_okay=False), help="The text, UTF-8.")
@click.option("--encode", help="package.module:function from a text to its token ids; its bytes if not given.")
@click.option("--radius", default=0.1, show_default=True, help="Folds nearer than this are counted.")
@click.option("--window", type=int, help="Run pieces of this many tokens; all at once if not given.")
@click.option("--limit", type=int, help="Only the first tokens.")
@click.option("--quantity", type=click.Choice(["active", "nearest", "folds", "mean", "std", "attention"]),
              default="nearest", show_default=True, help="What --plot shows.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False), help="Write all arrays to a .npz file.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Write a heat map, layers by tokens: .png, .svg or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    model: str, weights: str | None, trust: bool, text: str, encode: str | None, radius: float, window: int | None,
    limit: int | None, quantity: str, out: str | None, plot: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure the tokens of a text in every layer of MODEL.

    \b
    Examples:
      splinescope tokens mygpt:build --weights gpt.safetensors --text book.txt --window 256 --plot tokens.png
      splinescope tokens mygpt:build --encode mygpt:encode --text book.txt --json
    """
    import torch
    from torch import nn

    from ..smooth import token_geometry

    check_outputs(out, plot=plot)
    network = read_model(model, weights, trust=trust)
    if not isinstance(network, nn.Module):
        raise InputError(f"MODEL must be package.module:factory of a model on token ids, got {model!r}.")
    content = Path(text).read_text(encoding="utf-8")
    ids = list(content.encode()) if encode is None else _encoder(encode)(content)
    ids = torch.as_tensor(ids, dtype=torch.long).reshape(1, -1)[:, :limit]
    if not ids.numel():
        raise InputError(f"--text {text} must hold at least one token, got an empty one.")
    found = token_geometry(network, ids, radius=radius, window=window)
    if out is not None:
        _write(found, out)
    if plot is not None:
        _draw(found, quantity, plot, content, encode is None)
    if not as_json:
        click.echo(found.summary())
        return
    means = found.means()
    layers = [
        {"path": path, **{q: means[f"{q}/{i} {path}"] for q in ("active", "nearest", "folds")}}
        for i, path in enumerate(found.layers)
    ]
    echo_json({"tokens": int(found.mask.sum()), "radius": radius, "layers": layers,
               "features": found.features()[0].tolist(), "what": found.assurance})  # fmt: skip


def _encoder(name: str) -> Any:
    module, _, function = name.partition(":")
    sys.path.insert(0, "")
    try:
        made = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--encode {name!r} must be package.module:function: {error}.") from error
    finally:
        sys.path.remove("")
    return made


def _write(found: Any, path: str) -> None:
    import numpy as np

    from .._files import replacing

    names = ("mask", "active", "nearest", "folds", "mean", "std", "norm_mean", "norm_rms")
    arrays: dict[str, Any] = {name: getattr(found, name) for name in names}
    arrays |= {f"attention_{i}": value for i, value in enumerate(found.attention)}
    arrays |= {name: np.array(getattr(found, name)) for name in ("layers", "norms", "heads")}
    arrays["features"] = found.features()
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)
    note(f"wrote {path}")


def _draw(found: Any, quantity: str, path: str, content: str, by_bytes: bool) -> None:
    from .._checks import require
    from .._files import replacing

    require("matplotlib", "plot").use("Agg")
    from matplotlib import pyplot

    count = int(found.mask.sum())
    labels = list(content[:count]) if by_bytes and content.isascii() else None
    ax = found.plot(quantity, tokens=labels)
    with replacing(path) as partial:
        pyplot.figure(ax.get_figure(root=True)).savefig(partial, dpi=200)
    pyplot.close()
    note(f"wrote {path}")
