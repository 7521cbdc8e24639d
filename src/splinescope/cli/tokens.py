"""`splinescope tokens`: where the tokens of a text lie among the folds of a language model."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..support.checks import check_whole
from ..support.errors import InputError
from ..support.files import current_folder_first
from ._latents import check_arrays_path, write_arrays
from ._outputs import echo_json, note, write_figure, written_file, written_picture
from .inputs import model_arguments, read_model


@click.command("tokens", epilog="MODEL is package.module:factory, with --weights for trained ones.")
@model_arguments
@click.option("--text", required=True, type=click.Path(exists=True, dir_okay=False), help="The text, UTF-8.")
@click.option("--encode", help="package.module:function from a text to its token ids; its bytes if not given.")
@click.option("--radius", default=0.1, show_default=True, help="Folds nearer than this are counted.")
@click.option("--window", type=int, help="Run pieces of this many tokens; all at once if not given.")
@click.option("--limit", type=int, help="Only the first tokens.")
@click.option("--quantity", type=click.Choice(["active", "nearest", "folds", "mean", "std", "attention"]),
              default="nearest", show_default=True, help="What --plot shows.")  # fmt: skip
@click.option("--out", type=written_file, help="Write all arrays to a .npz file.")
@click.option("--plot", type=written_picture, help="Write a heat map, layers by tokens: .png, .svg or .pdf.")
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

    if out is not None:
        check_arrays_path(out)
    if limit is not None:
        check_whole(limit, "--limit")
    network = read_model(model, weights, trust=trust)
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
    _check_fits(network, ids, window)
    with _in_words_of_this_verb(ids, window):
        found = token_geometry(network, ids, radius=radius, window=window)
    if out is not None:
        _write(found, out)
    if plot is not None:
        labels = list(content[: ids.numel()]) if encode is None and content.isascii() else None
        write_figure(lambda: found.plot(quantity, tokens=labels), plot)
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


def _encoded(name: str, content: str) -> list[int]:
    """Token ids by the user's function."""
    module, _, function = name.partition(":")
    try:
        with current_folder_first():
            made = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--encode {name!r} must be package.module:function: {error}.") from error
    ids = made(content)
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    ids = ids[0] if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], list) else ids  # a batch of one
    if not isinstance(ids, (list, tuple)) or not all(type(number) is int for number in ids):
        raise InputError(f"--encode {name} must give whole numbers, one per token, got {_shortened(ids)}.")
    return list(ids)


def _check_fits(model: Any, ids: Any, window: int | None) -> None:
    """Refuse, in words of this verb, what a model of `transformers` says of itself that it cannot take."""
    config = getattr(model, "config", None)
    longest, vocabulary = getattr(config, "max_position_embeddings", None), getattr(config, "vocab_size", None)
    length = min(ids.shape[1], window or ids.shape[1])
    if isinstance(longest, int) and length > longest:
        raise InputError(
            f"the model takes at most {longest} tokens at once, and there are {length}: give --window {longest} (or "
            f"less), or --limit {longest}."
        )
    if isinstance(vocabulary, int) and (int(ids.max()) >= vocabulary or int(ids.min()) < 0):
        raise InputError(
            f"token ids must be 0 to {vocabulary - 1} for this model, got {int(ids.min())} to {int(ids.max())}: "
            "--encode names the function that makes its tokens of a text (its bytes if not given)."
        )


@contextlib.contextmanager
def _in_words_of_this_verb(ids: Any, window: int | None) -> Iterator[None]:
    """What a model raises on these tokens, with the options that may help."""
    try:
        yield
    except InputError as error:
        if error.__cause__ is None:  # not the model's own
            raise
        said = str(error.__cause__).strip().splitlines() or [""]
        raise InputError(
            f"MODEL does not run on {min(ids.shape[1], window or ids.shape[1])} token ids of {int(ids.min())} to "
            f"{int(ids.max())} at once ({type(error.__cause__).__name__}: {said[0]}): --window cuts a long text into "
            "pieces, --encode names the function that makes the model's tokens of a text (its bytes if not given)."
        ) from error


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _write(found: Any, path: str) -> None:
    import numpy as np

    names = ("mask", "active", "nearest", "folds", "mean", "std", "norm_mean", "norm_rms")
    arrays: dict[str, Any] = {name: getattr(found, name) for name in names}
    arrays |= {f"attention_{i}": value for i, value in enumerate(found.attention)}
    arrays |= {name: np.array(getattr(found, name)) for name in ("layers", "norms", "heads")}
    arrays["features"] = found.features()
    write_arrays(path, arrays)
    note(f"wrote {path}")
