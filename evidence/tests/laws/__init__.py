"""Laws that the numbers of experiments keep at any size, by document: exact identities, bounds, shares."""

from laws import decomposed, essay, meanfield, survey

LAWS = {**decomposed.LAWS, **essay.LAWS, **meanfield.LAWS, **survey.LAWS}
