"""Files in (ONNX, .nnet), torch modules out. Nothing in a file is executed.

Operators of ONNX are added in `onnx_ops` and `onnx_shapes`. Imports `watching`, for the sizes of values, and `support`.
"""
