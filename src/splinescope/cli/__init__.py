"""The command line: thin verbs over the Python functions of the same name.

In: arguments, files of models and data. Out: results on stdout, files, notes on stderr. Arguments that verbs share
stand in `inputs`, options of what they write in `_outputs`. A verb is imported only when asked for, so `splinescope
--help` stays fast. Imports `complexity`, `generative`, `guarantees`, `landscape`, `network`, `normalization`, `plot`,
`reports`, `representation`, `smooth`, `space`, `studio`, `support`, `tiling` and `train`.
"""

from ._main import main

__all__ = ["main"]
