"""Small generators, and how good and how even their samples are.

In: samples and latents. Out: generators and laws. Imports what measures in `splinescope`.
"""
