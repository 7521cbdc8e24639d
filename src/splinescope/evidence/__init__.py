"""Claims of the four documents as runnable experiments, each judged by stated lines.

An experiment is a module of this folder named after its id (`survey-fig9` is `survey_fig9.py`) that defines
`EXPERIMENT`, an `Experiment`. `reproduce` runs experiments and writes their numbers, figures and a page.
"""

from ._experiment import Check as Check
from ._experiment import Claim as Claim
from ._experiment import Experiment as Experiment
from ._experiment import Outcome as Outcome
from ._experiment import Verdict as Verdict
from ._experiment import judged as judged
from ._registry import find as find
from ._registry import ids as ids
from ._registry import source_of as source_of
from ._reproduce import reproduce as reproduce
