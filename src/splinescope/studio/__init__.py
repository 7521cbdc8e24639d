"""The studio: a page on which networks fold before your eyes. `splinescope studio` starts it (extra "studio").

A small local server (Starlette, uvicorn) and static ES modules. It listens on 127.0.0.1, asks every page for the
token of this run, and reads files without running what is in them. In: requests of pages. Out: frames and answers:
`microscope` tiles the slices that a page asks for, `playground` trains networks, `scenes` computes stories.
Imports `complexity`, `data`, `generative`, `meanfield`, `network`, `normalization`, `plot`, `representation`, `tiling`,
`train` and `support`.
"""

from .server import serve

__all__ = ["serve"]
