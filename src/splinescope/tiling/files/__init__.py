"""Tilings on disk and as other libraries' geometries: `storage` writes and checks, `loading` reads.

In: a `Tiling`. Out: files, and back; nothing in a file is executed or trusted. Imports `approximation`, `networks`,
`slice`, `tiling`, `cells`, `kernels`, `network` and `support`.
"""
