"""The pool of latents whose volumes are known, drawn shard by shard and kept on disk so that work resumes.

Shard i is drawn from its own seed, so the pool of n latents is the start of the pool of 2n, whatever was
interrupted. A shard is one safetensors file, written by atomic replacement; its header holds what it was made for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from .._display import Result
from .._errors import FileFormatError, InputError
from .._files import replacing
from .._progress import Progress

SHARD = 512
"""Latents per shard: what an interruption costs at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Result):
    """Proposals with what is known of them.

    Attributes:
        latents: `[N, d]` float64.
        condition: `[N]` index of the row of the sampler's `conditions` each goes with (zeros if there are none).
        singular_values: `[N, k]` of the generator's Jacobian, descending.
        rank: `[N]` how many of them are non-zero.
        log_volume: `[N]` log of their product, -inf where one is zero.
    """

    latents: Tensor
    condition: Tensor
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
    size: int,
    make: Callable[[int, int], Pool],
    *,
    folder: str | os.PathLike[str] | None,
    key: str,
    progress: Progress,
) -> Pool:
    """The first `size` latents of the pool; shards found in `folder` are read, the others made and written.

    Args:
        size: Latents wanted.
        make: (shard number, n) to the first n of that shard's `SHARD` latents.
        folder: Where shards are kept; nowhere if None.
        key: Hash of all that the shards depend on; a folder made with another one is refused.
        progress: Called with the share done and how many latents that is.
    """
    place = None if folder is None else Path(folder)
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
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


def _write(path: Path, pool: Pool, key: str) -> None:
    tensors = {name: value.contiguous() for name, value in pool.tensors().items()}
    with replacing(path) as partial:
        save_file(tensors, partial, metadata={"kind": "splinescope pool", "key": key})


def _read(path: Path, key: str) -> Pool:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("kind") != "splinescope pool":
                raise FileFormatError(f"{path} is not a shard of a pool of latents.")
            tensors = {name: file.get_tensor(name) for name in Pool.__dataclass_fields__}
    except SafetensorError as error:
        raise FileFormatError(f"{path} is corrupt or not a shard of a pool of latents: {error}") from error
    if header["key"] != key:
        raise InputError(
            f"{path.parent} holds volumes of another generator, domain, seed or setting; give another cache folder."
        )
    return Pool(**tensors)
