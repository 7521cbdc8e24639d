"""The examples in the docstrings print what they say."""

from __future__ import annotations

import pytest

from tests.checks import check_docstrings


@pytest.mark.parametrize("module", ["descriptors", "domains", "exact", "quality", "sampler", "volume"])
def test_the_examples_in_the_docstrings_are_true(module: str) -> None:
    check_docstrings(f"splinescope.generative.{module}")
