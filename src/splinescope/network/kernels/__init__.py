"""The hot loops of single operations: windows of images, and convolutions that torch has no kernel for.

In: arrays. Out: arrays. Imports `support`.
"""
