"""Claims of the four documents as runnable experiments, each judged by stated lines.

An experiment is a module of this folder named after its id (`survey-fig9` is `survey_fig9.py`) that defines
`EXPERIMENT`, an `Experiment`. `reproduce` runs experiments and writes their numbers, figures and a page.
"""

from ._experiment import Check, Claim, Experiment, Outcome, Verdict, judged
from ._registry import find, ids, source_of
from ._reproduce import reproduce

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
