"""Named arrays with a header in one safetensors file, sealed by a checksum: what every result on disk is written in.

The file is readable with any safetensors library. Its metadata: `format`, `version`, `header` (a JSON object) and
`sha256`, the digest of the header and of every array's name, dtype, shape and bytes. Nothing in it is executed.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from .checks import check_file
from .errors import FileFormatError
from .files import replacing

Layout = Mapping[str, tuple[type, int | None]]
"""Name of an array -> its dtype and number of axes (None: any)."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: `name` for people ("tiling"), and the version this program writes and reads."""

    name: str
    version: int

    @property
    def format(self) -> str:
        return f"splinescope.{self.name}"


def write_archive(
    path: str | os.PathLike[str], kind: Kind, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]
) -> None:
    """Write arrays (mapped files too, a block at a time) and a header by atomic replacement."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header)
    metadata = {"format": kind.format, "version": str(kind.version), "header": text, "sha256": _digest(plain, text)}
    # widest numbers first, so that every array starts at a multiple of its numbers' size and can be mapped
    order = sorted(plain, key=lambda name: (-plain[name].itemsize, name))
    entries: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name in order:
        array = plain[name]
        stop = start + array.nbytes
        entries[name] = {"dtype": _DTYPES[array.dtype.str], "shape": list(array.shape), "data_offsets": [start, stop]}
        start = stop
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in order:
            file.writelines(_blocks(plain[name]))


_CODES, _NAMES = "<f8 <f4 <i8 <i4 <u8 <u4 |u1 |b1", "F64 F32 I64 I32 U64 U32 U8 BOOL"
_DTYPES = dict(zip(_CODES.split(), _NAMES.split(), strict=True))
"""What safetensors calls the numbers that are stored here."""


def _blocks(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, so many at a time; of a mapped file, memory does not keep what was read."""
    if array.size:
        flat = array.reshape(-1).data.cast("B")
        for start in range(0, len(flat), _BLOCK):
            yield flat[start : start + _BLOCK]
            forget_pages(array)


def forget_pages(array: np.ndarray) -> None:
    """Drop the pages that a read-only array is mapped from; they are read again when needed."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return
        base = base.base
    content = base.obj if isinstance(base, memoryview) else base
    if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        content.madvise(mmap.MADV_DONTNEED)


def read_archive(
    path: str | os.PathLike[str],
    kind: Kind,
    layout: Callable[[dict[str, Any]], Layout] | None,
    optional: Collection[str] = (),
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The file's name, header and arrays, which are mapped, as they were written: checksum and `layout` are checked.

    Whoever wrote it may still have meant harm, so readers check that the arrays fit together. `layout` gives, from the
    header, the arrays that may be there; without it the reader calls `check_layout` itself.
    """
    name = str(check_file(path))
    try:
        with safe_open(name, framework="numpy") as file:
            metadata = file.metadata() or {}
            found, version = metadata.get("format") or "none", metadata.get("version")
            if found != kind.format:
                raise FileFormatError(f"{name} is not a {kind.name}: format {kind.format!r} expected, got {found!r}.")
            if version != str(kind.version):
                raise FileFormatError(
                    f"{name} has version {version!r} of its format; this reads version {kind.version}."
                )
            text = metadata.get("header", "")
            try:
                header = json.loads(text)
                require(isinstance(header, dict), f"header {type(header).__name__}")
                expected = None if layout is None else layout(header)
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise FileFormatError(f"{name}: the header is damaged: {type(error).__name__}: {error}.") from error
            entries = {key: file.get_slice(key) for key in sorted(file.keys())}
            if expected is not None:
                _check_names(name, entries, expected, optional)
            arrays = _mapped(name, entries)
    except (SafetensorError, KeyError, TypeError) as error:  # the last two: a dtype that numpy does not know
        raise FileFormatError(f"{name} is not a {kind.name}, or is damaged: {error}.") from error
    except OSError as error:
        raise FileFormatError(f"{name} cannot be read: {error}.") from error
    if expected is not None:
        check_layout(name, arrays, expected, optional)
    if metadata.get("sha256") != _digest(arrays, text):
        raise FileFormatError(f"{name} is damaged: its contents do not have the checksum they were written with.")
    return name, header, arrays


def check_layout(name: str, arrays: Mapping[str, np.ndarray], layout: Layout, optional: Collection[str] = ()) -> None:
    """Refuse arrays of a file that are missing or unknown, or have another dtype or number of axes than they must."""
    _check_names(name, arrays, layout, optional)
    for key, array in arrays.items():
        dtype, axes = layout[key]
        if array.dtype != dtype or (axes is not None and array.ndim != axes):
            raise FileFormatError(
                f"{name}: {key} must be {np.dtype(dtype)}{'' if axes is None else f' with {axes} axes'}, "
                f"got {array.dtype} of shape {array.shape}."
            )


def _check_names(name: str, found: Collection[str], layout: Layout, optional: Collection[str]) -> None:
    if wrong := sorted((layout.keys() - set(optional) - set(found)) | (set(found) - layout.keys())):
        raise FileFormatError(f"{name}: arrays missing or unknown: {', '.join(wrong)}.")


def _mapped(name: str, entries: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a file whose head the library has checked, as views of the file."""
    with open(name, "rb") as file:
        head = int.from_bytes(file.read(8), "little")
        offsets = {key: entry["data_offsets"] for key, entry in json.loads(file.read(head)).items() if key in entries}
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays = {}
    for key, entry in entries.items():
        dtype, shape = _NUMBERS[entry.get_dtype()], tuple(entry.get_shape())
        start, size = 8 + head + int(offsets[key][0]), int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, dtype, size, start).reshape(shape) if size else np.empty(shape, dtype)
        arrays[key] = array if array.flags.aligned else array.copy()
    return arrays


_NUMBERS = {name: np.dtype(code) for code, name in _DTYPES.items()}
_BLOCK = 1 << 24


def require(ok: bool, what: str) -> None:
    """For checks of a header: a ValueError, which `read_archive` turns into words about the file."""
    if not ok:
        raise ValueError(f"unexpected {what}")


def _digest(arrays: Mapping[str, np.ndarray], header: str) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        inner = hashlib.sha256()  # each array can be hashed on its own
        for block in _blocks(array):
            inner.update(block)
        digest.update(inner.digest())
    return digest.hexdigest()
