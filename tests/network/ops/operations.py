"""Every operation that `trace` knows, as the user writes it: label -> (module or function, shape of one input)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IMAGE, SERIES, VECTOR, VOLUME = (4, 6, 6), (4, 9), (6,), (2, 4, 4, 4)

generator = torch.Generator().manual_seed(7)


def fixed(*shape: int) -> Tensor:
    """A constant of the test, the same in every run."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


W66, W63, B3, ROW6 = fixed(6, 6), fixed(6, 3), fixed(3), fixed(6)
BATCHED = fixed(4, 6, 5)
NINE, PAIRS = fixed(3, 9), fixed(2, 2, 3)
CHANNELS = torch.tensor([2, 0, 1, 1])
MASK = torch.tensor([True, False, True, True, False, False])
K1, K2, K3 = fixed(4, 3, 3), fixed(4, 2, 3, 3), fixed(2, 3, 2, 2, 2)


def batch_norm(module: nn.Module) -> nn.Module:
    """A batch norm with statistics as after training."""
    with torch.no_grad():
        for value in (module.running_mean, module.weight, module.bias):
            if value is not None:
                value.copy_(fixed(*value.shape))
        module.running_var.copy_(fixed(*module.running_var.shape).abs() + 0.1)
    return module


def assign_column(x: Tensor) -> Tensor:
    y = x * 1.5
    y[:, 0] = 0.25
    y[:, 1] += y[:, 2]
    y[:, :, ::2] = x[:, :, 1::2]
    return y


def assign_by_index(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, CHANNELS[:2]] = x[:, 1:3] * 2.0
    return y


def in_place_skip(x: Tensor) -> Tensor:
    y = F.relu(x - 0.2)
    y += x
    y.mul_(0.5).clamp_(-0.3, 0.4)
    return y


def normalize(x: Tensor) -> Tensor:
    """As torchvision's `Normalize` is written: constants made on the way, looked at, and used in place."""
    mean, deviation = torch.as_tensor([0.1, 0.2, 0.3, 0.4]), torch.as_tensor([0.5, 0.6, 0.7, 0.8])
    if (deviation == 0).any():
        raise ValueError("a deviation is zero")
    return x.clone().sub_(mean.view(-1, 1)).div_(deviation.view(-1, 1))


def prelu(slopes: list[float]) -> nn.PReLU:
    layer = nn.PReLU(len(slopes))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(slopes))
    return layer


AFFINE: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "linear": (nn.Linear(6, 3), VECTOR),
    "linear on the last axis": (nn.Linear(6, 2), IMAGE),
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), SERIES),
    "conv2d": (nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), dilation=(1, 2), groups=2), IMAGE),
    "conv2d same": (nn.Conv2d(4, 3, 3, padding="same"), IMAGE),
    "conv3d": (nn.Conv3d(2, 3, 2), VOLUME),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x, K1, stride=2), SERIES),
    "conv_transpose2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), IMAGE),
    "conv_transpose2d dilated": (lambda x: F.conv_transpose2d(x, K2, dilation=2), IMAGE),
    "conv_transpose3d": (lambda x: F.conv_transpose3d(x, K3), VOLUME),
    "batch_norm1d": (batch_norm(nn.BatchNorm1d(6)), VECTOR),
    "batch_norm2d": (batch_norm(nn.BatchNorm2d(4)), IMAGE),
    "matmul": (lambda x: x @ W63, IMAGE),
    "matmul from the left": (lambda x: W66 @ x, IMAGE),
    "mm": (lambda x: torch.mm(x, W63), VECTOR),
    "mv": (lambda x: torch.mv(x, ROW6), VECTOR),
    "addmm": (lambda x: torch.addmm(B3, x, W63, alpha=-2.0, beta=0.5), VECTOR),
    "addmv": (lambda x: torch.addmv(x.sum(1), x, ROW6), VECTOR),
    "bmm": (lambda x: torch.bmm(x, W63.expand(x.shape[0], -1, -1)), (4, 6)),
    "baddbmm": (lambda x: torch.baddbmm(B3, x, W63.expand(x.shape[0], -1, -1)), (4, 6)),
    "einsum": (lambda x: torch.einsum("bchw,cwd->bdhc", x, BATCHED), IMAGE),
    "tensordot": (lambda x: torch.tensordot(x, W63, dims=1), IMAGE),
    "addcmul": (lambda x: torch.addcmul(x, x, ROW6, value=-0.5), VECTOR),
    "add": (lambda x: x + ROW6 + 1.5, IMAGE),
    "add alpha": (lambda x: torch.add(x, x.flip(1), alpha=-2), IMAGE),
    "sub": (lambda x: x - ROW6 - 0.5, IMAGE),
    "rsub": (lambda x: 1 - x, IMAGE),
    "mul": (lambda x: -2 * x * ROW6, IMAGE),
    "div": (lambda x: x / -3 / ROW6, IMAGE),
    "neg": (lambda x: -x, IMAGE),
    "sum": (lambda x: x.sum((1, 3)), IMAGE),
    "mean": (lambda x: x.mean(2, keepdim=True) + x.mean((1, -1), keepdim=True), IMAGE),
    "cumsum": (lambda x: x.cumsum(2), IMAGE),
    "avg_pool1d": (nn.AvgPool1d(3, padding=1), SERIES),
    "avg_pool2d": (nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), IMAGE),
    "avg_pool3d": (nn.AvgPool3d(2), VOLUME),
    "adaptive_avg_pool1d": (nn.AdaptiveAvgPool1d(4), SERIES),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d((4, 1)), IMAGE),
    "adaptive_avg_pool3d": (nn.AdaptiveAvgPool3d(3), VOLUME),
    "upsample_nearest1d": (nn.Upsample(scale_factor=2), SERIES),
    "upsample_nearest2d": (nn.Upsample(scale_factor=2), IMAGE),
    "upsample_nearest3d": (nn.Upsample(scale_factor=2), VOLUME),
    "upsample_linear1d": (nn.Upsample(scale_factor=2, mode="linear"), SERIES),
    "upsample_bilinear2d": (nn.Upsample(size=(9, 4), mode="bilinear", align_corners=True), IMAGE),
    "_upsample_bilinear2d_aa": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), IMAGE),
    "nearest-exact": (lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest-exact"), IMAGE),
    "nearest-exact 1d": (lambda x: F.interpolate(x, size=7, mode="nearest-exact"), SERIES),
    "nearest-exact 3d": (lambda x: F.interpolate(x, size=3, mode="nearest-exact"), VOLUME),
    "upsample_trilinear3d": (nn.Upsample(scale_factor=2, mode="trilinear"), VOLUME),
    "view": (lambda x: x.view(x.shape[0], 12, -1), IMAGE),
    "flatten": (nn.Flatten(), IMAGE),
    "rows of rows": (lambda x: F.linear(x.view(-1, 9), NINE).relu().view((*x.size()[:-1], 3)), SERIES),
    "pairs of rows": (lambda x: F.conv1d(x.reshape(-1, 2, 9), PAIRS).reshape(x.shape[0], -1), SERIES),
    "constant boolean mask": (lambda x: x[:, :, NINE[0] > 0] * 2, SERIES),
    "mean of its own": (normalize, SERIES),
    "reshape by len": (lambda x: x.reshape(len(x), -1) + x.view(len(x), 36), SERIES),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)).squeeze(-1), IMAGE),
    "squeeze": (lambda x: x[:, :1].squeeze(1).unsqueeze(-1), IMAGE),
    "reshape after permute": (lambda x: x.permute(0, 2, 3, 1).reshape(x.size(0), -1), IMAGE),
    "transpose": (lambda x: x.transpose(1, 2).mT.contiguous(), IMAGE),
    "t": (lambda x: (x.unsqueeze(1) * B3[:, None]).movedim(1, 2), VECTOR),
    "slice": (lambda x: x[:, 1:3, ::2, -3:], IMAGE),
    "select": (lambda x: x[..., 0], IMAGE),
    "narrow": (lambda x: x.narrow(2, 1, 3), IMAGE),
    "split": (lambda x: x.split(2, 1)[1] - x.chunk(2, 1)[0], IMAGE),
    "split_with_sizes": (lambda x: x.split([1, 3], 1)[1], IMAGE),
    "unbind": (lambda x: x.unbind(1)[0] - x.unbind(1)[3], IMAGE),
    "tensor_split": (lambda x: x.tensor_split(3, 1)[0], IMAGE),
    "cat": (lambda x: torch.cat([x, -x, ROW6.expand(x.shape[0], 1, 6, 6)], 1), IMAGE),
    "cat with fill": (lambda x: torch.cat([x, torch.zeros(x.shape[0], 1, 6, 6), torch.ones_like(x)], 1), IMAGE),
    "stack": (lambda x: torch.stack([x, 2 * x], 2), IMAGE),
    "hstack": (lambda x: torch.hstack([x, x.new_full((x.shape[0], 1, 6, 6), 3.0)]), IMAGE),
    "expand": (lambda x: x[:, :1].expand(-1, 5, -1, -1) + x[:, :1].expand(x.shape[0], 5, 6, 6), IMAGE),
    "repeat": (lambda x: x.repeat(1, 2, 1, 1), IMAGE),
    "tile": (lambda x: x.tile(1, 2, 1, 1), IMAGE),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), IMAGE),
    "roll": (lambda x: x.roll(1, 2), IMAGE),
    "flip": (lambda x: x.flip(-1), IMAGE),
    "rot90": (lambda x: torch.rot90(x, 1, (2, 3)), IMAGE),
    "tril": (lambda x: torch.tril(x) + torch.triu(x), IMAGE),
    "diagonal": (lambda x: x.diagonal(0, 2, 3), IMAGE),
    "index": (lambda x: x[:, [0, 2]], IMAGE),
    "index pairs": (lambda x: x[:, [0, 2], [1, 1]], IMAGE),
    "index_select": (lambda x: x.index_select(1, CHANNELS), IMAGE),
    "gather": (lambda x: x.gather(1, torch.ones(x.shape[0], 1, 6, 6, dtype=torch.long)), IMAGE),
    "assign in place": (assign_column, IMAGE),
    "assign by index": (assign_by_index, IMAGE),
    "masked_fill": (lambda x: x.masked_fill(MASK, -0.5), IMAGE),
    "where": (lambda x: torch.where(MASK, x, 2 * x.flip(1)), IMAGE),
    "pixel_shuffle": (nn.PixelShuffle(2), IMAGE),
    "pixel_unshuffle": (nn.PixelUnshuffle(2), IMAGE),
    "channel_shuffle": (nn.ChannelShuffle(2), IMAGE),
    "unfold": (lambda x: x.unfold(2, 2, 2), IMAGE),
    "im2col": (nn.Unfold(3, padding=1), IMAGE),
    "col2im": (nn.Fold((4, 4), 2, stride=1), (8, 9)),
    "pad": (lambda x: F.pad(x, (1, 0, 2, 1), value=-1.5), IMAGE),
    "pad reflect": (nn.ReflectionPad2d(2), IMAGE),
    "pad replicate": (nn.ReplicationPad2d((1, 2, 0, 1)), IMAGE),
    "pad circular": (lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"), IMAGE),
    "constant_pad_nd": (nn.ConstantPad1d(1, 2.0), SERIES),
    "dropout": (
        nn.Sequential(nn.Dropout(0.5), nn.Dropout2d(0.5), nn.AlphaDropout(0.5), nn.FeatureAlphaDropout(0.5)),
        IMAGE,
    ),
    "identity": (nn.Sequential(nn.Identity(), nn.Identity()), IMAGE),
    "casts": (lambda x: x.detach().to(torch.float64, copy=True).type_as(x).clone(), IMAGE),
    "first power": (lambda x: x**1 + x.pow(1.0), IMAGE),
    "long names": (lambda x: torch.negative(torch.subtract(torch.multiply(x, ROW6), 2)), IMAGE),
    "division by long names": (lambda x: torch.true_divide(torch.divide(x, 3), ROW6), IMAGE),
    "concat": (lambda x: torch.concat([x, torch.dstack([x, x.positive()]).narrow(2, 3, 6)], 1), IMAGE),
    "index_add": (lambda x: x.index_add(1, CHANNELS, x.flip(1), alpha=-2), IMAGE),
    "index_copy": (lambda x: x.index_copy(1, CHANNELS[:2], -x[:, :2]).index_fill(2, CHANNELS[:1], 0.5), IMAGE),
    "scatter": (lambda x: x.scatter(1, torch.ones(x.shape[0], 1, 6, 6, dtype=torch.long), 2 * x), IMAGE),
    "constant_pad_nd op": (lambda x: torch.constant_pad_nd(x, (1, 2), 0.5), IMAGE),
    "fill in place": (lambda x: x + (2 * x).zero_() + x.new_zeros(6), IMAGE),
    "zeros_like": (lambda x: x + torch.zeros_like(x) + torch.full_like(x, 2.0) + x.new_ones(x.shape), IMAGE),
    "zeros": (lambda x: x + torch.full((x.shape[0], 6), 2.0) * 3, VECTOR),
}

FOLDS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "relu": (nn.ReLU(), IMAGE),
    "relu in place": (lambda x: F.relu_(x * 1.0), IMAGE),
    "leaky_relu": (nn.LeakyReLU(0.2), IMAGE),
    "leaky_relu negative": (lambda x: F.leaky_relu(x, -0.5), IMAGE),
    "leaky_relu of slope 1": (lambda x: F.leaky_relu(x, 1.0), IMAGE),
    "prelu": (prelu([0.25]), VECTOR),
    "prelu per channel": (prelu([0.25, -0.5, 1.0, 1.5]), IMAGE),
    "rrelu": (nn.RReLU(), IMAGE),
    "abs": (lambda x: x.abs() + torch.absolute(x - 0.5), IMAGE),
    "relu6": (lambda x: F.relu6(4 * x), IMAGE),
    "hardtanh": (nn.Hardtanh(-0.5, 1.0), IMAGE),
    "hardsigmoid": (lambda x: F.hardsigmoid(4 * x), IMAGE),
    "softshrink": (nn.Softshrink(0.3), IMAGE),
    "clamp": (lambda x: x.clamp(-0.5, 0.7), IMAGE),
    "clamp above": (lambda x: torch.clip(x, max=0.1), IMAGE),
    "clamp by tensors": (lambda x: x.clamp(ROW6 - 0.5, ROW6.flip(0)), IMAGE),
    "clamp_min": (lambda x: x.clamp_min(0.1), IMAGE),
    "clamp_max": (lambda x: x.clamp_max(0.1), IMAGE),
    "threshold": (nn.Threshold(0.2, 0.2), IMAGE),
    "maximum": (lambda x: torch.maximum(x, x.flip(1)), IMAGE),
    "maximum broadcast": (lambda x: torch.maximum(x[:, :1], x), IMAGE),
    "maximum with constant": (lambda x: torch.maximum(ROW6, x), IMAGE),
    "minimum": (lambda x: torch.minimum(x, x.flip(1)), IMAGE),
    "max of two": (lambda x: torch.max(x, -x) - torch.min(x, 2 * x), IMAGE),
    "fmax": (lambda x: torch.fmax(x, x.flip(1)) + torch.fmin(x, ROW6), IMAGE),
    "max over axis": (lambda x: x.max(1).values - x.min(1, keepdim=True).values[:, 0], IMAGE),
    "amax": (lambda x: x.amax((1, 3)) - x.amin(-2).mean(1), IMAGE),
    "maxout": (lambda x: x.view(x.shape[0], 2, 2, 6, 6).max(dim=2)[0], IMAGE),
    "sort pairs": (lambda x: x.view(x.shape[0], 3, 2).sort(-1).values.flatten(1), VECTOR),
    "sort pairs down": (lambda x: torch.sort(x.view(x.shape[0], 2, 3), 1, descending=True)[0], VECTOR),
    "sort": (lambda x: x[:, :5].sort(1, descending=True).values, VECTOR),
    "topk": (lambda x: torch.cat([x[:, :3].topk(2, 1).values, x.topk(1, 1, largest=False)[0]], 1), VECTOR),
    "kthvalue": (lambda x: torch.kthvalue(x[:, :3], 2, -1, keepdim=True)[0], VECTOR),
    "median": (lambda x: x.view(x.shape[0], 3, 2).median(1).values, VECTOR),
    "aminmax": (lambda x: torch.stack(torch.aminmax(x, dim=1), 1), VECTOR),
    "cummax": (lambda x: x[:, :3].cummax(1).values - torch.cummin(x[:, 3:], 1)[0], VECTOR),
    "norm of one": (lambda x: x.norm(1, 1) + torch.linalg.norm(x, 1, 1), IMAGE),
    "norm of infinity": (lambda x: torch.norm(x, float("inf"), (1, 2)), IMAGE),
    "vector norms": (
        lambda x: torch.linalg.vector_norm(x, float("inf"), dim=2) - torch.linalg.vector_norm(x, float("-inf"), (2,)),
        IMAGE,
    ),
    "cdist": (lambda x: torch.cdist(x, NINE, p=1) + torch.cdist(x, NINE, p=float("inf")), SERIES),
    "pairwise distance": (lambda x: F.pairwise_distance(x, x.flip(1), p=1.0, keepdim=True), VECTOR),
    "max_pool1d": (nn.MaxPool1d(3, stride=2, padding=1), SERIES),
    "max_pool1d of rows": (lambda x: F.max_pool1d(x.reshape(-1, 1, 9), 3).view(x.shape[0], 4, 3), SERIES),
    "clamp of rows": (lambda x: x.reshape(-1, 9).clamp(-0.4, 0.3).reshape(x.shape[0], 4, 9), SERIES),
    "max_pool2d": (nn.MaxPool2d(2), IMAGE),
    "max_pool2d overlapping": (nn.MaxPool2d(3, stride=2, padding=1), IMAGE),
    "max_pool2d ceil": (nn.MaxPool2d(3, stride=2, ceil_mode=True), (2, 6, 5)),
    "max_pool2d dilated": (nn.MaxPool2d((2, 3), stride=1, padding=(0, 1), dilation=(3, 2)), IMAGE),
    "max_pool2d values": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE),
    "max_pool2d of one": (nn.MaxPool2d(1), IMAGE),
    "max_pool1d values": (lambda x: F.max_pool1d(x, 2, return_indices=True)[0], SERIES),
    "max_pool3d values": (lambda x: F.max_pool3d(x, 2, return_indices=True)[0], VOLUME),
    "max_pool3d": (nn.MaxPool3d(2), VOLUME),
    "adaptive_max_pool1d": (nn.AdaptiveMaxPool1d(4), SERIES),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d((4, 1)), IMAGE),
    "adaptive_max_pool3d": (nn.AdaptiveMaxPool3d(3), VOLUME),
    "in-place skip": (in_place_skip, IMAGE),
}

WRITES = {"assign in place", "assign by index", "fill in place"}
"""Operations that write into views: their graphs are rewritten by torch before they are read."""
