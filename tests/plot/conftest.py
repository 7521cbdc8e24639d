"""A browser for the tests of pages, and pages opened in it."""

from contextlib import contextmanager

import pytest

from tests.browser import open_browser, opened


@pytest.fixture(scope="module")
def browser():
    with open_browser() as made:
        yield made


@pytest.fixture
def open_page(browser):
    @contextmanager
    def loaded(path, **options):
        with opened(browser, path, **options) as page:
            page.wait_for_selector("body[data-ready]")
            yield page

    return loaded
