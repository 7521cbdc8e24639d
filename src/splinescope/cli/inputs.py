"""What verbs take from the command line: models and arrays, read without running anything but the named factory."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..support.arrays import read_array, reader_of, split_name
from ..support.checks import check_file, reading
from ..support.errors import FileFormatError, InputError
from ..support.files import current_folder_first
from ._outputs import written_file

if TYPE_CHECKING:
    import torch

    from ..network import SplineNetwork
    from ..tiling import Tiling

_F = TypeVar("_F", bound=Callable[..., Any])

MODEL_HELP = (
    "an .onnx or .nnet file, package.module:factory (with --weights for trained ones), or a .pt2 archive with --trust"
)

FILES = (".onnx", ".nnet", ".pt2")


class _ModelName(click.ParamType):
    """MODEL, refused while options are read if nothing of that name is there: before torch is loaded."""

    name = "MODEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return check_model_name(value)


class _DataFile(click.ParamType):
    """A file of numbers, refused while options are read if it is not there or of another kind."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        file, _ = split_name(value)
        reader_of(file)
        check_file(file)
        return str(value)


def check_model_name(model: str) -> str:
    """`model`, refused unless it is a file that exists or a factory in a module that can be found."""
    if Path(model).suffix in FILES:
        check_file(model)
        return model
    module, colon, _ = model.partition(":")
    if not colon:
        raise InputError(f"MODEL must be {MODEL_HELP}; got {model!r}.")
    top = module.partition(".")[0]
    with current_folder_first():
        importlib.invalidate_caches()
        try:
            found = top in sys.modules or importlib.util.find_spec(top) is not None
        except ValueError:  # of an empty name
            found = False
    if not found:
        raise InputError(f"MODEL {model!r} was not found: No module named {top!r}.")
    return model


class _LossName(click.ParamType):
    """The name of a loss; the table of them is looked up only when one is given: help stays fast."""

    name = "LOSS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ..support.losses import named_loss

        named_loss(value, functions=False)
        return str(value)


model_name, data_file, loss_name = _ModelName(), _DataFile(), _LossName()
model_argument = click.argument("model", type=model_name, metavar="MODEL")
weights_option = click.option(
    "--weights",
    type=click.Path(exists=True, dir_okay=False),
    help="State dict for the factory's model: .safetensors, or .pt/.pth (read with weights_only=True).",
)
trust_option = click.option(
    "--trust", is_flag=True, help="Allow a .pt2 archive: loading one can run code, so only from people you trust."
)
_OUTPUT = "splinescope.output"


def _keep_pick(context: click.Context, _param: click.Parameter, value: str | None) -> None:
    index = value is not None and value.removeprefix("-").isdigit()
    context.meta[_OUTPUT] = int(value) if value is not None and index else value


pick_option = click.option(
    "--pick",
    metavar="OUTPUT",
    expose_value=False,
    callback=_keep_pick,
    help="Which of several outputs: its index or its name. Without it, an error lists them.",
)
"""Read by `read_model` from click's context, so that verbs need not hand it on."""
tiling_path = click.Path(exists=True, dir_okay=False, allow_dash=True)
"""A tiling file, or - for standard input; `read_tiling` takes it."""
shape_option = click.option(
    "--shape",
    callback=lambda _ctx, _param, value: parse_shape(value),
    help="Shape of one input, e.g. 1,28,28, to give flat rows their form.",
)


data_option = click.option(
    "--data", type=data_file, required=True, help="Inputs, one per row: .npy, .npz (FILE.npz:name), .csv or .pt."
)


class _RadiusType(click.ParamType):
    name = "NUMBER|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "auto" or isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor auto", param, ctx)


radius_option = click.option(
    "--radius",
    type=_RadiusType(),
    default="auto",
    show_default=True,
    help="Size of the neighbourhood; auto: half the data's spacing.",
)


def model_arguments(command: _F) -> _F:
    """MODEL, --weights, --trust and --pick, for every verb that takes a network; `read_model` takes their values."""
    return model_argument(weights_option(trust_option(pick_option(command))))


def page_options(page: str, otherwise: str) -> Callable[[_F], _F]:
    """The options of verbs that measure all that applies, and write a page: from --data to --json.

    `page` is where the page goes by default, `otherwise` what is printed without --json.
    """

    def decorate(command: _F) -> _F:
        for option in (
            click.option("--json", "as_json", is_flag=True, help=f"Print the numbers as JSON instead of {otherwise}."),
            click.option("--out", type=written_file, default=lambda: unused(page), show_default=page,
                         help="Where to write the page; the numbers go beside it as .json. "
                              "A file of this name is replaced, unless it is the default."),
            click.option("--loss", type=loss_name,
                         help="squared, mse, cross_entropy, bce or logistic. The default follows from --labels and is "
                              "printed."),
            click.option("--seed", default=0, show_default=True, help="Seed of everything random."),
            click.option("--exclude", multiple=True, help="All blocks but these; may be given again."),
            click.option("--include", multiple=True,
                         help="Only these blocks, e.g. tiles,complexity; may be given again."),
            shape_option,
            click.option("--labels", type=data_file,
                         help="Class numbers or targets, one per row, in a file of the same kinds."),
            data_option,
        ):  # fmt: skip
            command = option(command)
        return command

    return decorate


def unused(page: str) -> str:
    """The default name of a page, refused where a file of that name would be lost."""
    if Path(page).exists():
        raise InputError(f"{page} is there already: give --out {page} to replace it, or another name.")
    return page


def read_rows(data: str, shape: tuple[int, ...] | None, *networks: Any) -> torch.Tensor:
    """Inputs in float64; flat rows get the given shape, or what a network knows."""
    import torch

    known = next((net.input_shape for net in networks if getattr(net, "input_shape", None) is not None), None)
    return torch.from_numpy(read_array(data, shape or known))


def read_data(
    data: str, labels: str | None, shape: tuple[int, ...] | None, *networks: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Inputs in float32 and, if there is a file of them, targets."""
    return read_rows(data, shape, *networks).float(), None if labels is None else read_labels(labels)


def listed(given: tuple[str, ...]) -> list[str]:
    """What an option that may be given again names: ("tiles, folds", "depth") as ["tiles", "folds", "depth"]."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """ "1,28,28" as (1, 28, 28)."""
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError as error:
        raise InputError(f"--shape must be integers such as 1,28,28, got {text!r}.") from error
    if any(size < 1 for size in shape):
        raise InputError(f"--shape must be positive, got {text!r}.")
    return shape


def read_model(model: str, weights: str | None = None, *, trust: bool = False) -> torch.nn.Module | SplineNetwork:
    """The model named on the command line: a file, or the return value of a factory, in evaluation mode.

    Files are only read, never executed, but for a .pt2 archive that the user trusts.
    """
    check_model_name(model)
    from ..network import load

    if Path(model).suffix in FILES:
        if weights is not None:
            raise InputError(f"--weights goes with package.module:factory; {model} carries its own.")
        return picked(_read_archive(model, trust)) if model.endswith(".pt2") else load(model, output=_pick())
    from ..train.factories import made_by

    return picked(made_by(model, weights))


def _pick() -> int | str | None:
    """The value of --pick, if this is a verb that has it."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_OUTPUT)


def picked(model: torch.nn.Module) -> torch.nn.Module:
    """The model with the output that --pick names, or as it is."""
    from ..network.outputs import Picked

    output = _pick()
    return model if output is None else Picked(model, output).eval()


def _read_archive(path: str, trust: bool) -> torch.nn.Module:
    """The module of a torch.export archive, with the `input_shape` that the archive tells."""
    if not trust:
        raise InputError(f"{path}: loading a .pt2 archive can run code; add --trust if you trust its author.")
    check_file(path)
    import torch

    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, of how it reads its own files
        exported = torch.export.load(path)
        module = exported.module()
    names = exported.graph_signature.user_inputs
    shapes = [n.meta["val"].shape for n in exported.graph.nodes if n.op == "placeholder" and n.name in names]
    if len(shapes) != 1 or len(shapes[0]) < 2:
        raise InputError(f"{path} must hold a network of one input, a batch first; got {len(shapes)} inputs.")
    batch, *shape = shapes[0]
    if isinstance(batch, int):
        raise InputError(
            f"{path} was exported for batches of {batch} only: export it with a free batch, "
            "torch.export.export(model, (two_rows,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))."
        )
    if all(isinstance(size, int) for size in shape):
        vars(module)["input_shape"] = tuple(shape)  # as a SplineNetwork has it
    return module


def read_tiling(file: str) -> Tiling:
    """A tiling from a file, or from standard input for "-"."""
    from ..tiling import load_tiling

    if file != "-":
        return load_tiling(file)
    with tempfile.TemporaryDirectory() as folder:  # the reader maps the file into memory: a pipe will not do
        copy = Path(folder, "tiling")
        with copy.open("wb") as written:
            shutil.copyfileobj(sys.stdin.buffer, written)
        try:
            return load_tiling(copy)
        except FileFormatError as error:
            raise FileFormatError(str(error).replace(str(copy), "standard input")) from error


def read_labels(path: str) -> torch.Tensor:
    """Class numbers, if the file holds one whole number for each row, or targets."""
    import torch

    values = read_array(path)
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    whole = flat.ndim == 1 and bool((flat == flat.round()).all())
    return torch.from_numpy(flat).long() if whole else torch.from_numpy(values).float()
