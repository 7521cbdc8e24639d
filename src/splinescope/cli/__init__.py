"""The command line: thin verbs over the Python functions of the same name.

Each verb lives in its own file and is imported only when asked for, so `splinescope --help` stays fast.
"""

from ._main import main

__all__ = [
    "main",
]
