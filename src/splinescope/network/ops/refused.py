"""Ops that no tiling can hold, and what to do; ops allowed only at the very end."""

from torch import Tensor

from .activations import CURVED, MINUS_ONE, ONE, ZERO
from .bend import Bend, Given
from .hinges import JUMP, soft
from .registry import Tails, ending, refuse


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
RECURRENT = "runs a whole recurrent layer in one call, which is not read; write a loop over linear layers and ReLU."
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
refuse(ORDER, "median", "kthvalue", "cummax", "cummin", "aminmax")
refuse(NORM, "layer_norm", "group_norm", "rms_norm", "instance_norm", role="norm")
refuse("is not read; write start + weight * (end - start).", "lerp")
refuse("is not read; nearest and linear resizing are.", "upsample_bicubic2d", "_upsample_bicubic2d_aa", role="sum")
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
refuse(RECURRENT, "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", kind="recurrent")
refuse(ATTENTION, "lstm", "gru", "lstm_cell", "gru_cell", kind="recurrent")
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
ending("sigmoid", "sigmoid", "special_expit", squashes=True)
for _label in ("tanh", "softmax", "log_softmax"):
    ending(_label, _label, squashes=True)
for _label in ("argmax", "log_sigmoid", "softplus", "exp"):
    ending(_label, _label)
