"""As in the package's own tests: a test has one outcome, and assertions of laws say what they compared."""

import pytest
from tests.conftest import pytest_fixture_setup as pytest_fixture_setup
from tests.conftest import pytest_runtest_call as pytest_runtest_call
from tests.conftest import pytest_runtest_teardown as pytest_runtest_teardown
from tests.generative.conftest import real_data as real_data

pytest.register_assert_rewrite("laws")
