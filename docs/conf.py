"""Sphinx configuration: everything is built offline, warnings are errors (`make docs`)."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "2")
mpl.use("Agg")

import splinescope

project = "splinescope"
copyright = "the splinescope authors"
author = "The splinescope developers"
version = release = splinescope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinx_codeautolink",  # names inside blocks of code lead to the reference
    "mathml",  # docs/mathml.py: formulas without a script from elsewhere
    "thumbnails",  # docs/thumbnails.py: one panel of each example
    "dark",  # docs/dark.py: the pictures of dark pages
    "calls",  # docs/calls.py: the pages of the reference, and calls in the text that lead there
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip", "gallery/**/*.json"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "splinescope"
html_static_path = ["static"]
html_css_files = ["code.css", "tables.css", "findings.css", "pictures.css", "maths.css"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
suppress_warnings = [
    "config.cache",  # sphinx-gallery's settings hold functions
    "ref.python",  # fields of several results share a name, such as `site`
    "codeautolink.match_name",  # a name that the gallery has linked already
    "codeautolink.match_block",  # an example with a directive of doctest in it keeps its plain text
]

_EXAMPLES = Path(__file__).parent.parent / "examples"
_TOPICS = sorted(path.parent.name for path in _EXAMPLES.glob("*/README.rst"))
_NETWORKS = Path(os.environ.get("SPLINESCOPE_TEST_DATA", _EXAMPLES.parents[1] / "shared" / "data"))
if _NETWORKS.is_dir():
    os.environ["SPLINESCOPE_TEST_DATA"] = str(_NETWORKS)
    _LEFT_OUT = r"^__init__\.py"
else:  # scripts named plot_real_* show networks that other people trained
    _LEFT_OUT = r"^(?:__init__\.py|plot_real_)"
sphinx_gallery_conf = {
    "ignore_pattern": _LEFT_OUT,
    "examples_dirs": [str(_EXAMPLES / topic) for topic in _TOPICS],
    "gallery_dirs": [f"gallery/{topic}" for topic in _TOPICS],
    "filename_pattern": r"/plot_",
    "image_scrapers": ("thumbnails.scrape",),
    "backreferences_dir": "gallery/backreferences",  # which docs/gallery.md wants, to show all of a topic
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}


def name_shown_scripts(app: object, page: str, source: list[str]) -> None:
    """The page of the gallery asks for all scripts of a topic: those that are left out have no picture to show."""
    if page == "gallery":
        source[0] = re.sub(r"\.\./examples/(\w+)/plot_\*\.py", _shown_scripts, source[0])


def lead_to_gallery(app: object, page: str, source: list[str]) -> None:
    """Links to a script, which the files show, lead to its page of the gallery on the site."""
    shown = rf"\((?:\.\./)+examples/(\w+)/(?!{_LEFT_OUT.lstrip('^')})(plot_\w+)\.py\)"
    source[0] = re.sub(shown, r"(/gallery/\1/\2.rst)", source[0])


def _shown_scripts(topic: re.Match[str]) -> str:
    names = sorted(
        path.name for path in (_EXAMPLES / topic[1]).glob("plot_*.py") if not re.search(_LEFT_OUT, path.name)
    )
    return " ".join(f"../examples/{topic[1]}/{name}" for name in names)


def write_playground(app: Any, error: Exception | None) -> None:
    """The playground beside the pages: it runs in the reader's browser."""
    if error is None and app.builder.format == "html":
        from splinescope.studio.files import write_playground as write

        shutil.rmtree(Path(app.outdir) / "playground", ignore_errors=True)
        write(Path(app.outdir) / "playground")


def write_recordings(app: Any, error: Exception | None) -> None:
    """The stories as pages with a slider, which the page of ideas leads to."""
    if error is None and app.builder.format == "html":
        from make_recordings import write_recordings as write

        write(Path(app.outdir) / "recordings")


def setup(app: Any) -> None:
    app.connect("build-finished", write_playground)
    app.connect("build-finished", write_recordings)
    app.connect("source-read", name_shown_scripts)
    app.connect("source-read", lead_to_gallery)
