"""Random layers with a batch: what they keep of it, in expectation, by width and through depth.

In: batches, Gram matrices and widths. Out: laws and their numbers. Imports `arguments` and what measures in
`splinescope`.
"""
