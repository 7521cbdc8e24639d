"""A generator as a map of latents, and its Jacobian A as an operator: A t by forward mode, A^T u by reverse mode.

Each row of a batch is a latent of its own, so one forward-mode pass with the same unit tangent in every row gives
one column of every row's Jacobian: the primal runs once, all tangents ride along as one batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.network import module_of
from ..network.program import Program
from ..network.readable import check_mode, check_statistics, floating_like
from ..network.watching.ending import before_ending
from ..support.checks import check_choice, no_batch_axis, refuse_collections
from ..support.derivatives import columns, differentiating, first_line, pull_back
from ..support.errors import InputError

_WHAT = "the generator"
Generator = nn.Module | SplineNetwork
"""What every function here takes: a module from a latent batch to a tensor batch, or a traced network."""
Bound = Generator | Program
"""The same, or the frozen float64 program of a network, which has no ending."""


@dataclass(frozen=True)
class LatentMap:
    """A generator bound to how it is to be read: `function(z)`, z of `latent_shape`, flat outputs.

    Attributes:
        function: `[n, *latent_shape]` to `[n, D]`.
        latent_shape: Shape of one latent.
        outputs: D, numbers per output.
        dtype: The generator's.
        device: The generator's.
    """

    function: Callable[[Tensor], Tensor]
    latent_shape: tuple[int, ...]
    outputs: int
    dtype: torch.dtype
    device: torch.device

    @property
    def latent_size(self) -> int:
        """d, numbers per latent."""
        return int(torch.Size(self.latent_shape).numel())

    def cast(self, z: Tensor) -> Tensor:
        """Latents in the generator's dtype, on its device."""
        return z.to(self.device, self.dtype)

    def columns(self, z: Tensor, tangents: Tensor) -> Tensor:
        """`A t` for tangents `[b, n, d]` (or `[b, 1, d]`, the same for every latent): `[n, b, D]`, forward mode."""
        with differentiating(_WHAT, lambda: self.function(z)):
            return columns(self.function, z, tangents.unflatten(-1, self.latent_shape))

    def pull_back(self, z: Tensor) -> Callable[[Tensor], Tensor]:
        """The function from `u` `[n, b, D]` to `A^T u` `[n, b, d]`, reverse mode."""
        with differentiating(_WHAT, lambda: self.function(z)):
            pull = pull_back(self.function, z)

        def run(u: Tensor) -> Tensor:
            with differentiating(_WHAT, lambda: self.function(z)):
                return pull(u)

        return run


def latent_map(model: Bound, z: Tensor, *, output: str = "after") -> LatentMap:
    """Check a generator against latents and bind it. See `log_volume` for the arguments."""
    check_choice(output, "output", ("after", "before"))
    function, like = _callable(model, output)
    refuse_collections(z, "z")
    if not isinstance(z, Tensor) or not z.is_floating_point() or z.dim() < 2:
        what = f"{z.dtype} of shape {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
        raise InputError(f"z must be a floating-point tensor of shape (N, ...latent shape), got {what}.")
    if isinstance(model, (SplineNetwork, Program)) and tuple(z.shape[1:]) != tuple(model.input_shape):
        raise InputError(
            f"z must have shape (N, {', '.join(map(str, model.input_shape))}), got "
            f"{tuple(z.shape)}{no_batch_axis(z.shape, model.input_shape, 'z')}."
        )
    if not bool(z.isfinite().all()):
        raise InputError(f"z must be finite, got {int((~z.isfinite()).sum())} NaN or infinite values.")
    if output == "before" and not isinstance(model, SplineNetwork):
        function = _refusing(before_ending(function))
    dtype, device = (like.dtype, like.device) if like is not None else (z.dtype, z.device)
    probe = z[:2] if len(z) else z.new_zeros(2, *z.shape[1:])
    outputs = _check_rows(function, probe.to(device, dtype))
    return LatentMap(lambda x: function(x).flatten(1), tuple(z.shape[1:]), outputs, dtype, device)


def _callable(model: Bound, output: str) -> tuple[Callable[..., Any], Tensor | None]:
    """What to call, and a tensor whose dtype and device the latents take."""
    if isinstance(model, Program):
        return model.forward, torch.zeros((), dtype=torch.float64)
    if isinstance(model, SplineNetwork) and (output == "before" or model.ending is None):
        return model.program().forward, torch.zeros((), dtype=torch.float64)
    module = module_of(model)
    check_mode(module)
    check_statistics(module)
    return module, floating_like(module, None)


def _refusing(function: Callable[..., Tensor | None]) -> Callable[..., Tensor]:
    def run(*args: Any) -> Tensor:
        result = function(*args)
        if result is None:
            raise InputError(
                'output="before" needs a generator that ends in tanh, sigmoid or softmax, and this one does not: '
                'use output="after".'
            )
        return result

    return run


def _check_rows(function: Callable[..., Any], probe: Tensor) -> int:
    """Run two latents; refuse what does not fit, is random, or lets one row see another. Returns D."""
    with torch.no_grad(), torch.random.fork_rng(devices=[probe.device] if probe.is_cuda else []):
        try:
            whole = function(probe)
            alone = [function(row) for row in probe.split(1)]
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"the generator does not take latents of shape {tuple(probe.shape[1:])}: {first_line(error)}. "
                "Give the part that makes outputs of latents: of a VAE its decoder."
            ) from error
    if not isinstance(whole, Tensor) or whole.dim() == 0 or len(whole) != len(probe):
        got = f"shape {tuple(whole.shape)}" if isinstance(whole, Tensor) else type(whole).__name__
        raise InputError(
            f"the generator must return one tensor with a row per latent, got {got} for {len(probe)} latents."
        )
    if not bool(whole.isfinite().all()):
        raise InputError("the generator's outputs must be finite, got NaN or infinite values.")
    scale = float(whole.abs().max()) if whole.numel() else 1.0
    tolerance = 1e3 * torch.finfo(whole.dtype).eps * max(scale, torch.finfo(whole.dtype).tiny)
    if any(not torch.allclose(whole[i : i + 1], a, rtol=0.0, atol=tolerance) for i, a in enumerate(alone)):
        raise InputError(
            "the generator must give each latent the same output alone as in a batch; this one is random or lets rows "
            "see each other (noise inputs, batch statistics): fix the noise, or call model.eval()."
        )
    return int(whole[0].numel())
