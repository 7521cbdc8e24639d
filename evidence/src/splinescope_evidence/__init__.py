"""Claims of four documents, and some of our own, as runnable experiments, each judged by stated lines.

An experiment is a module that defines `EXPERIMENT`, an `Experiment`. Its id is the folder of its document and the name
of its file: `survey-fig9` is `survey/figures/fig9.py`. `reproduce` runs experiments and writes their numbers, figures
and a page.
"""

from .framework.experiment import Check, Claim, Experiment, Outcome, Verdict, judged
from .framework.registry import find, ids
from .framework.reproduce import reproduce
from .framework.source import source_of

__all__ = [
    "Check",
    "Claim",
    "Experiment",
    "Outcome",
    "Verdict",
    "find",
    "ids",
    "judged",
    "reproduce",
    "source_of",
]
