"""Numbers from files: .npy, .npz, .csv and .pt; nothing in a file is run."""

import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from .checks import as_float64_array, check_file, reading
from .errors import FileFormatError, InputError
from .threads import ALONE


def read_array(path: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Numbers from .npy, .npz (one array, or `FILE.npz:name`), .csv (header allowed) or .pt; no pickle is run.

    With `shape`, each row is given that form.
    """
    file, name = split_name(path)
    reader = reader_of(file)
    check_file(file)
    with reading(file):
        array = as_float64_array(reader(file, name), file)
    if not array.size:
        raise InputError(f"{file} holds no numbers.")
    if shape is None:
        return array
    if array.ndim == 0 or array[0].size != np.prod(shape):
        raise InputError(f"rows of {file} have shape {array.shape[1:]}, which does not fill the shape {shape}.")
    return array.reshape(len(array), *shape)


def reader_of(file: str) -> Callable[[str, str | None], Any]:
    """What reads a file of numbers, by its ending."""
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".pt": _read_pt, ".pth": _read_pt}
    reader = readers.get(Path(file).suffix.lower())
    if reader is None:
        raise InputError(f"data must end in {', '.join(readers)}, got {file!r}.")
    return reader


def split_name(path: str) -> tuple[str, str | None]:
    """File and name of the array in it: "FILE.npz:name"."""
    file, colon, name = path.rpartition(":")
    return (file, name) if colon and file.endswith(".npz") else (path, None)


def _read_npy(path: str, _name: str | None) -> Any:
    with open(path, "rb") as stream:
        _check_npy(stream, Path(path).stat().st_size, path)
    return np.load(path, allow_pickle=False)


def _check_npy(stream: IO[bytes], size: int, path: str) -> None:
    """Refuse an array of anything but numbers, or of more of them than its `size` bytes hold, before it gets memory."""
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = readers[npy.read_magic(stream)](stream)
    if dtype.kind not in "fiub":
        raise FileFormatError(f"{path} is not a .npy file of numbers; nothing in it was run.")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size - stream.tell():
        raise FileFormatError(f"{path} is cut off: an array of shape {shape} is longer than its {size:,} bytes.")


def _read_npz(path: str, name: str | None) -> Any:
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        if name is None and len(arrays.files) != 1:
            raise InputError(f"{path} holds {', '.join(arrays.files)}: choose one as {path}:NAME.")
        name = name or arrays.files[0]
        if name not in arrays.files:
            raise InputError(f"{path} holds {', '.join(arrays.files)}, not {name!r}.")
        member = arrays.zip.getinfo(f"{name}.npy")
        with arrays.zip.open(member) as header:
            _check_npy(header, member.file_size, path)
        return arrays[name]


def _read_csv(path: str, _name: str | None) -> Any:
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    header = any(character.isalpha() and character not in "eE" for character in first)  # names, no numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty file, which is refused
        return np.loadtxt(path, delimiter=",", skiprows=int(header), ndmin=2)


def _read_pt(path: str, _name: str | None) -> Any:
    import torch

    value = load_tensors(path)
    if not isinstance(value, torch.Tensor):
        raise FileFormatError(f"{path} must hold one tensor, got {type(value).__name__}.")
    return value


def load_tensors(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote, with `weights_only=True`: tensors and plain containers; nothing in the file is run."""
    import torch

    try:
        with reading(path), ALONE, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of unusual pickle protocols: read or refused all the same
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileFormatError as error:
        what = f"{os.fspath(path)} is not a readable checkpoint or tensor"
        raise FileFormatError(f"{what}: it is no file of plain tensors; nothing in it was run.") from error
