"""Checkpoints: parameters from a file, of which nothing is run, or from a state dict, into a module; and factories."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..support.arrays import load_tensors
from ..support.checks import check_file, check_module
from ..support.errors import FileFormatError, InputError
from ..support.files import current_folder_first, imported, replacing

ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt")
"""How names of files with parameters end."""

_INSIDE = ("state_dict", "model_state_dict", "model")  # where training loops put the parameters of a checkpoint


def load_checkpoint(model: nn.Module, source: str | os.PathLike[str] | Mapping[str, Tensor]) -> None:
    """Put the parameters of a checkpoint into a module, in place.

    `source` is a .safetensors file, one of `torch.save` (read with `weights_only=True`: no code in it is run), with the
    state dict itself or under "state_dict", "model_state_dict" or "model"; or a state dict.
    """
    name = "a state dict" if isinstance(source, Mapping) else os.fspath(source)
    try:
        if not isinstance(source, Mapping) and Path(source).suffix == ".safetensors":
            _load_safetensors(model, name)
            return
        state = source if isinstance(source, Mapping) else load_tensors(source)
        for key in _INSIDE:
            if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
                state = state[key]
        if not isinstance(state, Mapping):
            raise FileFormatError(f"{name} is not a readable checkpoint: it must hold a state dict, names to tensors.")
        model.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"{name} does not fit the model: {' '.join(str(error).split())}") from error


def save_checkpoint(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a module's parameters and buffers as safetensors, with a checksum that `load_checkpoint` compares."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file, save_model

    with replacing(path) as partial:
        try:
            save_model(model, str(partial))  # knows about tied parameters, which the file holds once
            with safe_open(partial, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = {**(file.metadata() or {}), _CHECKSUM: _checksum(file)}
            save_file(tensors, partial, metadata)
        except SafetensorError as error:  # its own word for what the system refused
            raise OSError(str(error)) from error


_CHECKSUM = "splinescope.sha256"


def _checksum(file: Any) -> str:
    """Digest of the tensors of an open safetensors file."""
    digest = hashlib.sha256()
    for name in sorted(file.keys()):
        tensor = file.get_tensor(name)
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _load_safetensors(model: nn.Module, path: str) -> None:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_model

    try:
        with safe_open(path, framework="pt") as file:
            checksum = (file.metadata() or {}).get(_CHECKSUM)  # files of others have none
            if checksum is not None and checksum != _checksum(file):
                raise FileFormatError(f"{path} is damaged: it does not have the checksum that it was written with.")
        load_model(model, path)
    except SafetensorError as error:
        raise FileFormatError(f"{path} is not a readable checkpoint: {str(error).splitlines()[0]}") from error


def made_by(factory: str, weights: str | os.PathLike[str] | None = None) -> nn.Module:
    """The module that "package.module:factory" makes, with parameters of a file, in eval mode.

    Its package is imported as Python would from the current folder; the factory has no required arguments.
    """
    made = imported(factory)
    with current_folder_first():
        if not isinstance(made, nn.Module):
            if not callable(made):
                raise InputError(f"{factory} must be a class or function that makes a torch.nn.Module, got {made!r}.")
            try:
                made = made()
            except Exception as error:  # the user's own code: whatever it raises is bad input here
                raise InputError(f"{factory}() failed: {type(error).__name__}: {error}") from error
    check_module(made, f"what {factory} gives", read=False)
    if weights is not None:
        load_checkpoint(made, check_file(weights))
    return made.eval()
