"""A module in, a `Program` out: exported once, lowered to affine steps and folds, compared with the module.

Imports `ops`, `watching`, `outputs`, `program`, `ranges` and `support`.
"""
