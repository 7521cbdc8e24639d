"""`splinescope tokens`: where the tokens of a text lie among the folds of a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ..support.errors import InputError
from ..support.files import imported
from ._outputs import echo_result, json_option, plot_option, write_arrays, write_figure, written_arrays
from .inputs import model_arguments, read_model


@click.command("tokens", epilog="MODEL is package.module:factory, with --weights for trained ones.")
@model_arguments
@click.option("--text", required=True, type=click.Path(exists=True, dir_okay=False), help="The text, UTF-8.")
@click.option("--encode", help="package.module:function from a text to its token ids; its bytes if not given.")
@click.option("--radius", default=0.1, show_default=True, help="Folds nearer than this are counted.")
@click.option("--window", type=int, help="Run pieces of this many tokens; all at once if not given.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first tokens.")
@click.option("--quantity", type=click.Choice(["active", "nearest", "folds", "mean", "std", "attention"]),
              default="nearest", show_default=True, help="What --plot shows.")  # fmt: skip
@click.option("--out", type=written_arrays, help="Write all arrays to a .npz file.")
@plot_option
@json_option
def tokens_command(
    model: str, weights: str | None, text: str, encode: str | None, radius: float, window: int | None,
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

    network = read_model(model, weights)
    if not isinstance(network, nn.Module):
        raise InputError(f"MODEL must be package.module:factory of a model on token ids, got {model!r}.")
    try:
        content = Path(text).read_bytes().decode("utf-8-sig")  # line ends as they are
    except UnicodeDecodeError as error:
        raise InputError(f"--text {text} must be UTF-8: {error}.") from error
    ids = torch.tensor(list(content.encode()) if encode is None else _encoded(encode, content), dtype=torch.long)
    ids = ids[None, :limit]
    if not ids.numel():
        raise InputError(f"--text {text} must hold at least one token, got an empty one.")
    try:
        found = token_geometry(network, ids, radius=radius, window=window)
    except InputError as error:
        if error.__cause__ is None:  # not the model's own
            raise
        raise InputError(
            f"{error} (token ids are {int(ids.min())} to {int(ids.max())}: --encode names the function that makes the "
            "model's tokens, --window cuts a long text into pieces)"
        ) from error
    if out is not None:
        write_arrays(out, _arrays(found))
    labels = list(content[: ids.numel()]) if encode is None and content.isascii() else None
    write_figure(plot, lambda: found.plot(quantity, tokens=labels))
    means = found.means()
    layers = [
        {"path": path, **{q: means[f"{q}/{i} {path}"] for q in ("active", "nearest", "folds")}}
        for i, path in enumerate(found.layers)
    ]
    numbers = {"tokens": int(found.mask.sum()), "radius": radius, "layers": layers,
               "features": found.features()[0].tolist(), "what": found.assurance}  # fmt: skip
    echo_result(numbers, as_json, found.summary())


def _encoded(name: str, content: str) -> list[int]:
    """Token ids by the user's function."""
    ids = imported(name, "--encode")(content)
    ids = ids.flatten().tolist() if hasattr(ids, "tolist") else ids
    if not isinstance(ids, (list, tuple)) or not all(type(number) is int for number in ids):
        raise InputError(f"--encode {name} must give whole numbers, one per token, got {repr(ids)[:40]}.")
    return list(ids)


def _arrays(found: Any) -> dict[str, np.ndarray]:
    names = ("mask", "active", "nearest", "folds", "mean", "std", "norm_mean", "norm_rms")
    return {
        **{name: getattr(found, name) for name in names},
        **{f"attention_{i}": value for i, value in enumerate(found.attention)},
        **{name: np.array(getattr(found, name)) for name in ("layers", "norms", "heads")},
        "features": found.features(),
    }
