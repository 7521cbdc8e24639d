"""Networks in files: ONNX and .nnet as torch modules. Nothing in a file is executed.

Imports `support` alone.
"""
