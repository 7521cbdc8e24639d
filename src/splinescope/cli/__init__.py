"""The command line: thin verbs over the Python functions of the same name.

In: arguments, files of models and data. Out: results on stdout, files, notes on stderr. A verb is imported only when
asked for, so `splinescope --help` stays fast. Imports every other room.
"""

from ._main import main

__all__ = [
    "main",
]
