"""Tests of the experiments."""

import pytest

pytest.register_assert_rewrite("tests.evidence.laws")  # their assertions say what they compared
