"""`splinescope verify`: whether a property holds for all inputs of a set."""

import sys
from typing import Any

import click

from ._outputs import echo_result, json_option

_EXIT = {True: 0, False: 10, None: 3}  # it holds, it is violated, it is undecided


@click.command("verify")
@click.argument("networks", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.argument("property", type=click.Path(exists=True, dir_okay=False))
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Give up after this many seconds.")
@click.option("--max-tiles", type=click.IntRange(min=1), help="Give up after this many tiles.")
@click.option("--workers", type=click.IntRange(min=1), help="Share long searches among this many processes.")
@click.option("--complete", is_flag=True, help="Find the whole unsafe set and its volume.")
@click.option("--margin", is_flag=True, help="Find the exact margin of a property that holds.")
@json_option
@click.option(
    "--format", "style", type=click.Choice(["text", "vnncomp"]), default="text",
    help="vnncomp: unsat, sat with the witness, unknown or timeout, as the verification competition's scripts read.",
)  # fmt: skip
def verify_command(
    networks: tuple[str, ...], property: str, time_limit: float | None, max_tiles: int | None, workers: int | None,
    complete: bool, margin: bool, as_json: bool, style: str,
) -> None:  # fmt: skip
    """Prove or refute a VNN-LIB property of a network.

    The network is an ONNX or .nnet file; exact tiles decide. For a VNN-LIB 2 file about several networks, give them in
    the order of its declarations.

    Exit code 0: it holds; 10: it is violated; 3: undecided; with --format vnncomp 0 whatever the answer.

    \b
    Examples:
      splinescope verify net.onnx prop.vnnlib
      splinescope verify net.onnx prop.vnnlib --complete --json
      splinescope verify f.onnx g.onnx same.vnnlib
      splinescope verify net.onnx prop.vnnlib --format vnncomp --time-limit 60
    """
    if as_json and style == "vnncomp":
        raise click.UsageError("give --json or --format vnncomp, not both: either is an output of its own.")
    from ..guarantees import verify

    model = networks[0] if len(networks) == 1 else networks
    found = verify(model, property, complete=complete, time_limit=time_limit, max_tiles=max_tiles, workers=workers)
    if style == "vnncomp":
        click.echo(_competition_words(found))
        return
    lines = [{True: "holds", False: "violated", None: "undecided"}[found.holds], found.summary()]
    if margin and found.holds:
        lines.append(f"margin {found.margin:.12g}")
    if found.unsafe is not None:
        lines.append(f"unsafe share {found.unsafe.share:.12g} in {len(found.unsafe)} polytopes")
    echo_result(_plain(found, margin), as_json, "\n".join(lines))
    sys.exit(_EXIT[found.holds])


def _competition_words(found: Any) -> str:
    """unsat, unknown, timeout, or sat with the witness in brackets, one value a line."""
    if found.holds is None:
        return "timeout" if "time_limit" in found.reason else "unknown"
    if found.holds:
        return "unsat"
    from numpy import ndenumerate

    witness = found.witness
    y = witness.seen_y if witness.seen_y is not None else witness.y
    values = {f"X_{i}": v for i, v in enumerate(witness.x.reshape(-1))}
    values |= {f"Y_{i}": v for i, v in enumerate(y.reshape(-1))}
    if witness.tensors:  # of version 2, where every network has names of its own
        named = ((name, at, value) for name, array in witness.tensors.items() for at, value in ndenumerate(array))
        values = {f"{name}[{','.join(map(str, at))}]": value for name, at, value in named}
    return "sat\n(" + "\n".join(f"({name} {value:.17g})" for name, value in values.items()) + ")"


def _plain(found: Any, margin: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "holds": found.holds, "rigorous": found.rigorous, "rounding": found.rounding, "reason": found.reason,
        "tiles": found.tiles, "cells": found.cells, "seconds": found.seconds,
    }  # fmt: skip
    if found.witness is not None:
        witness = found.witness
        result["witness"] = {"x": witness.x.reshape(-1).tolist(), "y": witness.y.reshape(-1).tolist(),
                             "excess": witness.excess if witness.excess < float("inf") else None,
                             "seen_by": witness.seen_by,
                             "confirmed": witness.confirmed}  # fmt: skip
        if witness.tensors:
            result["witness"]["tensors"] = {name: array.tolist() for name, array in witness.tensors.items()}
    if margin and found.holds and found.margin != float("inf"):
        result["margin"] = found.margin
    if found.unsafe is not None:
        told = ("volume", "share", "rounding", "certainty")
        result["unsafe"] = {"polytopes": len(found.unsafe)} | {name: getattr(found.unsafe, name) for name in told}
    return result
