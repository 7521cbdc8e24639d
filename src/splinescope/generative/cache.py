"""The pool of latents whose volumes are known, drawn shard by shard and kept on disk so that work resumes.

Shard i is drawn from its own seed, so the pool of n latents is the start of the pool of 2n, whatever was
interrupted. A shard is one safetensors file with a checksum, written by atomic replacement; its header holds what it
was made for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..support.archive import Kind, Layout, read_archive, write_archive
from ..support.display import Result
from ..support.errors import FileFormatError, InputError
from ..support.files import check_folder
from ..support.progress import Progress

SHARD = 512
"""Latents per shard: what an interruption costs at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Result):
    """Proposed latents with their singular values, ranks and volumes.

    Attributes:
        latents: `[N, d]` float64.
        singular_values: `[N, k]` of the generator's Jacobian, descending.
        rank: `[N]` how many of them are non-zero.
        log_volume: `[N]` log of their product, -inf where one is zero.
    """

    latents: Tensor
    singular_values: Tensor
    rank: Tensor
    log_volume: Tensor
    certainty = "exact"

    def __len__(self) -> int:
        return len(self.latents)

    def head(self, n: int) -> Pool:
        """The first n."""
        return Pool(*(value[:n] for value in self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        """The fields by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def gather(
    size: int, make: Callable[[int, int], Pool], *, folder: str | os.PathLike[str] | None, key: str, progress: Progress
) -> Pool:
    """The first `size` latents of the pool; shards found in `folder` are read, the others made and written.

    `make(shard number, n)` gives the first n of a shard's latents. A folder made with another `key`, the hash of all
    that shards depend on, is refused.
    """
    place = None if folder is None else check_folder(folder)
    shards: list[Pool] = []
    for number in range(-(-size // SHARD)):
        path = None if place is None else place / f"pool-{number:06d}.safetensors"
        wanted = min(SHARD, size - number * SHARD)
        shard = _read(path, key) if path is not None and path.exists() else None
        if shard is None or len(shard) < wanted:
            shard = make(number, wanted)
            if path is not None:
                _write(path, shard, key)
        shards.append(shard)
        done = min(size, (number + 1) * SHARD)
        progress(done / size, f"{done} latents")
    columns = [torch.cat(parts) for parts in zip(*(s.tensors().values() for s in shards), strict=True)]
    return Pool(*columns).head(size)


def fingerprint(model: nn.Module, *settings: object) -> str:
    """SHA-256 of a module's structure and tensors and of the settings."""
    digest = hashlib.sha256(f"{model}\n{[_lasting(setting) for setting in settings]}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _lasting(setting: object) -> str:
    """The repr; of objects whose repr is an address, which the next run does not have, their class and attributes."""
    if type(setting).__repr__ is not object.__repr__:
        return repr(setting)
    attributes = {k: v.tolist() if hasattr(v, "tolist") else _lasting(v) for k, v in sorted(vars(setting).items())}
    return f"{type(setting).__qualname__}({attributes})"


KIND = Kind("pool", 1)
_LAYOUT: Layout = {
    "latents": (np.float64, 2),
    "singular_values": (np.float64, 2),
    "rank": (np.int64, 1),
    "log_volume": (np.float64, 1),
}


def _write(path: Path, pool: Pool, key: str) -> None:
    write_archive(path, KIND, {name: value.numpy() for name, value in pool.tensors().items()}, {"key": key})


def _read(path: Path, key: str) -> Pool:
    name, header, arrays = read_archive(path, KIND, lambda header: _LAYOUT)
    if header.get("key") != key:
        raise InputError(
            f"{path.parent} holds volumes of another generator, domain, seed or setting; give another cache folder."
        )
    pool = Pool(**{key: torch.from_numpy(array.copy()) for key, array in arrays.items()})
    checks = {
        "all must have as many rows": len({len(value) for value in pool.tensors().values()}) == 1,
        f"a shard has at most {SHARD} latents": len(pool) <= SHARD,
        "latents must be finite": bool(pool.latents.isfinite().all()),
        "singular values must be finite, and descend from above zero": bool(
            pool.singular_values.isfinite().all()
            and (pool.singular_values >= 0).all()
            and (pool.singular_values.diff() <= 0).all()
        ),
        "rank must be how many of them there are, or less": bool(
            ((pool.rank >= 0) & (pool.rank <= pool.singular_values.shape[1])).all()
        ),
        "log_volume must be numbers": bool((pool.log_volume < torch.inf).all()),
    }
    for sentence, ok in checks.items():
        if not ok:
            raise FileFormatError(f"{name} is damaged: {sentence}.")
    return pool
