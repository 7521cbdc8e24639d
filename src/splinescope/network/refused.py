"""Ops that no tiling can hold, and what to do; ops allowed only at the very end."""

from __future__ import annotations

from ._registry import ending, refuse

SMOOTH = (
    "is smooth, not piecewise affine, so it has no exact tiles; use a piecewise-affine activation (ReLU, "
    "LeakyReLU, Hardtanh...) or trace the part before it."
)
QUADRATIC = (
    "is piecewise quadratic, not piecewise affine, so it has no exact tiles; use a piecewise-affine activation (ReLU, "
    "LeakyReLU, Hardtanh...) or trace the part before it."
)
NORM = (
    "divides by statistics of its own input, which is not piecewise affine; freeze_statistics(model, x) gives a "
    "copy whose statistics, measured on x, stay fixed."
)
JUMP = "is not continuous, so its tiles would not describe it; use relu, clamp, maximum or another continuous op."
RANDOM = "is random; call model.eval() first, or trace a deterministic network."
TRAINING = (
    "normalises by the statistics of the batch: rows are mixed and nothing is piecewise affine; call model.eval() "
    "first, and keep track_running_stats=True."
)
ATTENTION = "multiplies values that both depend on the input; not piecewise affine, and no exact tiles exist."

refuse(QUADRATIC, "hardswish")
refuse(SMOOTH, "gelu", "silu", "mish", "elu", "celu", "selu", "softplus", "softsign", "tanhshrink")
refuse(SMOOTH, "exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "atan", "logsumexp")
refuse(SMOOTH, "pow", "square", "reciprocal", "prod", "lp_pool2d", "normalize")
refuse(
    SMOOTH,
    "var",
    "std",
    "var_mean",
    "std_mean",
    "log_sigmoid",
    "logsigmoid",
    "softmin",
    "cdist",
    "glu",
    "_softmax",
)
refuse(
    "is not supported; an L1 norm is x.abs().sum(), other norms are not piecewise affine.", "norm", "linalg_vector_norm"
)
refuse(
    "is piecewise affine but not supported yet; max, min and pairs that are sorted are.", "median", "kthvalue", "topk"
)
refuse(NORM, "layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "rms_norm")
refuse(NORM, "_fused_rms_norm", "local_response_norm")
refuse(
    JUMP,
    "sign",
    "sgn",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "gt",
    "ge",
    "lt",
    "le",
    "eq",
    "ne",
    "hardshrink",
)
refuse(
    JUMP,
    "heaviside",
    "remainder",
    "fmod",
    "argmin",
    "argsort",
    "mode",
    "nonzero",
)
refuse(
    RANDOM,
    "native_dropout",
    "bernoulli",
    "rand_like",
    "randn_like",
    "randint_like",
    "rand",
    "randn",
    "normal",
)
refuse(RANDOM, "uniform", "multinomial", "dropout2d", "dropout1d", "dropout3d", "exponential", "poisson")
refuse(TRAINING, "_native_batch_norm_legit_functional", "_native_batch_norm_legit", "_batch_norm_with_update")
refuse(ATTENTION, "scaled_dot_product_attention", "bilinear", "_native_multi_head_attention")

LATE = "is smooth and allowed only as the very last operation of a network; trace the part before it."
for _label in ("sigmoid", "tanh", "softmax", "log_softmax", "argmax"):
    ending(_label, _label)
    refuse(LATE, _label)
ending("log_sigmoid", "log_sigmoid")
ending("softplus", "softplus")
ending("exp", "exp")
