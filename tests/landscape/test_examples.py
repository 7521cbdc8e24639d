"""The examples in the docstrings print what they say."""

import pytest

from tests.checks import check_docstrings


@pytest.mark.parametrize("module", ["conditioning", "hessian", "sections"])
def test_the_examples_in_the_docstrings_are_true(module):
    check_docstrings(f"splinescope.landscape.{module}")
