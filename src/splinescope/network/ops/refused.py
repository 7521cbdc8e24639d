"""Ops that no tiling can hold, and what to do; ops allowed only at the very end."""

from __future__ import annotations

import torch
from torch import Tensor

from .activations import CURVED, MINUS_ONE, ONE, ZERO
from .bend import Bend, Given
from .hinges import JUMP, soft
from .registry import Squash, Tails, ending, refuse


def _gate(given: Given) -> Tensor:
    """Of a gated linear unit, the half that gates."""
    return given["self"].chunk(2, given["dim"])[1]


NORM = (
    "divides by statistics of its own input, which is not piecewise affine; freeze_statistics(model, x) gives a "
    "copy whose statistics, measured on x, stay fixed."
)
RANDOM = "is random; call model.eval() first, or trace a deterministic network."
TRAINING = (
    "normalizes by the statistics of the batch: rows are mixed and nothing is piecewise affine; call model.eval() "
    "first, and keep track_running_stats=True."
)
RECURRENT = (
    "is read step by step with batch_first=True, sequences of one length and no initial state of their own; only so."
)
GATES = (
    "multiplies gates and states that both depend on the input; not piecewise affine, and no exact tiles exist; "
    'nn.RNN(nonlinearity="relu", batch_first=True) is.'
)
TANH = 'is smooth, not piecewise affine; with nonlinearity="relu" it is.'
ATTENTION = "multiplies values that both depend on the input; not piecewise affine, and no exact tiles exist."

refuse(CURVED, "log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", elementwise=True)
refuse(CURVED, "logsumexp", "prod", "lp_pool2d", "normalize", "softmin", "_softmax")
refuse(CURVED, "var", "std", "var_mean", "std_mean")
refuse(CURVED, "glu", bend=Bend(_gate, _gate))
refuse(
    "is piecewise affine along axes of a row for p = 1 and p = inf alone; other norms are not piecewise affine.",
    *("norm", "linalg_norm", "linalg_vector_norm", "linalg_matrix_norm", "cdist", "pairwise_distance"),
)
ORDER = (
    "gives values that are piecewise affine, along an axis of each row; the indices it returns are not continuous in "
    "the input, nor is the order of values that are not sorted, and the batch axis belongs to no row."
)
refuse(ORDER, "topk", role="sort")
refuse(
    ORDER,
    *("median", "kthvalue", "cummax", "cummin", "aminmax"),
)
refuse(NORM, "layer_norm", "group_norm", "rms_norm", role="norm")
refuse(NORM, "native_layer_norm", "native_group_norm", "_fused_rms_norm", "local_response_norm")
refuse(
    JUMP,
    *("sign", "sgn", "floor", "ceil", "round", "trunc", "frac", "gt", "ge", "lt", "le", "eq", "ne"),
    *("heaviside", "remainder", "fmod", "argmin", "argsort", "mode", "nonzero"),
    *("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine", "fused_moving_avg_obs_fake_quant"),
    kind="jump",
)
refuse(
    RANDOM,
    *("native_dropout", "bernoulli", "rand", "randn", "normal"),
    *("uniform", "multinomial", "dropout2d", "dropout1d", "dropout3d", "exponential", "poisson"),
    kind="random",
)
refuse(RANDOM, "rand_like", "randn_like", "randint_like", kind="random", role="made")
refuse(TRAINING, "_native_batch_norm_legit_functional", "_native_batch_norm_legit", "_batch_norm_with_update")
refuse(RECURRENT, "rnn_relu", "rnn_relu_cell", kind="recurrent")
refuse(GATES, "lstm", "gru", "lstm_cell", "gru_cell", kind="recurrent")
refuse(TANH, "rnn_tanh", "rnn_tanh_cell", kind="recurrent")
refuse(ATTENTION, "scaled_dot_product_attention", "_native_multi_head_attention")
refuse(ATTENTION, "bilinear", role="product")

LATE = (
    "is smooth and allowed only as the very last operation of a network; tessellate(model, view, tolerance=1e-3) "
    "tiles a network within a tolerance of it, or trace the part before it."
)
soft(LATE, "sigmoid", "special_expit", tails=Tails(ZERO, ONE))
soft(LATE, "tanh", tails=Tails(MINUS_ONE, ONE))
refuse(
    "is allowed only as the very last operation of a network; trace the part before it.",
    *("softmax", "log_softmax", "argmax"),
)
_SIGMOID = Squash(torch.sigmoid, lambda h: torch.sigmoid(h) * torch.sigmoid(-h))
_TANH = Squash(torch.tanh, lambda h: 4 * torch.sigmoid(2 * h) * torch.sigmoid(-2 * h))
ending("sigmoid", "sigmoid", "special_expit", squash=_SIGMOID)
ending("tanh", "tanh", squash=_TANH)
for _label in ("softmax", "log_softmax"):
    ending(_label, _label, squash=Squash())
for _label in ("argmax", "log_sigmoid", "softplus", "exp"):
    ending(_label, _label)
