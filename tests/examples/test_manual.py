"""The manual as a reader meets it: short sentences, calls that lead to the reference, and no page that nobody finds."""

import ast
import functools
import importlib
import inspect
import json
import re
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
import torch

import splinescope as ss
import splinescope_research

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDS = re.compile(r"evidence|open_questions|findings|changelog|contributing")
"""Pages that programs write, or that include another file."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if not {"_build", "gallery"} & set(page.parts)]
WRITTEN = [page for page in PAGES if not RECORDS.search(str(page.relative_to(ROOT))) and page.parent.name != "api"]
MEAN, LONGEST, MOST_WORDS = 18.0, 25, 36_000
ELSEWHERE = {"load_model", "save_model", "Refusal", "Call"}
"""Names that pages use and that are not of the reference."""


@pytest.fixture(scope="module")
def calls() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("calls")
    finally:
        sys.path.remove(str(DOCS))


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page's sentences: without code, formulas, tables, headings, pictures and the addresses of links."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    text = re.sub(r"\$[^$]*\$", "Formula", text)
    return re.sub(r"^(\||#|:|<).*$", "", text, flags=re.MULTILINE)


def sentences(page: Path) -> list[list[str]]:
    """Words of every sentence; a point of a list and a paragraph end one."""
    ends = r"(?<=[.!?])[*\"”)]*\s+(?=[A-Z\"*(\d])|\n\s*\n|\n\s*(?:[-*]|\d\.)\s|:\s*\n"
    found = [re.findall(r"[^\W_]+(?:['’.-][^\W_]+)*", part) for part in re.split(ends, prose(page))]
    return [words for words in found if len(words) > 2]


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_sentences_are_short(page: Path) -> None:
    found = sentences(page)
    mean = sum(map(len, found)) / max(len(found), 1)
    longest = max(found, key=len, default=[])
    assert mean < MEAN, f"{mean:.1f} words a sentence"
    assert len(longest) <= LONGEST, " ".join(longest)


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_every_call_in_the_text_leads_to_the_reference(page: Path, calls: ModuleType) -> None:
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lost = []
    for code in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", text):
        own = re.match(r"(ss|splinescope(_research)?)\.[A-Za-z]", code) or re.match(r"[a-z_]\w+_\w*\(", code)
        known = code.split("(")[0] in ELSEWHERE or code.partition(".")[2] in ss.__all__
        if own and not known and (calls.target(code) is None or not there(code)):
            lost.append(code)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_call_in_the_text_fits_its_signature(page: Path) -> None:
    """Blocks run elsewhere; these stand within sentences, tables and cards."""
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    wrong = []
    for code in re.findall(r"`((?:ss|splinescope_research)\.[^`]+\([^`]*)`", text):
        for call in ast.walk(ast.parse(" ".join(code.split()), mode="eval")):
            if isinstance(call, ast.Call) and re.fullmatch(r"(ss|splinescope_\w+)(\.\w+)+", ast.unparse(call.func)):
                package, *names = ast.unparse(call.func).split(".")
                function = functools.reduce(getattr, names, ss if package == "ss" else splinescope_research)
                try:
                    inspect.signature(function).bind(*call.args, **{str(key.arg): key.value for key in call.keywords})
                except TypeError as error:
                    wrong.append(f"{code}: {error}")
    assert wrong == []


def there(code: str) -> bool:
    """Whether a name that begins at the top level is where it says."""
    thing: object = ss
    for word in re.split(r"[^\w.]", code)[0].split(".")[1:]:
        thing = getattr(thing, word, None)
    return thing is not None or not code.startswith("ss.")


def test_the_manual_stays_short() -> None:
    pages = [ROOT / "CHANGELOG.md", *(page for page in PAGES if page.parent.name != "api")]
    unread = r"(?ms)^ *```.*?^ *```|<[^>]*>|!\[[^\]]*\]|\]\([^)]*\)|^[:(].*?$"  # code, tags, targets of links
    assert sum(len(re.sub(unread, " ", page.read_text(encoding="utf-8")).split()) for page in pages) < MOST_WORDS


def test_every_page_is_in_the_contents() -> None:
    listed: set[str] = set()
    for page in DOCS.rglob("*.md"):
        for body in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            for line in body.splitlines():
                if line.strip() and not line.startswith(":"):
                    inside = page.parent.relative_to(DOCS)
                    listed |= {str(each.relative_to(DOCS)) for each in DOCS.glob(str(inside / f"{line.strip()}.md"))}
    shown = {str(page.relative_to(DOCS)) for page in PAGES if DOCS in page.parents}
    assert shown - listed - {"index.md"} == set()


def test_every_table_of_the_benchmarks_is_shown_or_linked() -> None:
    text = (DOCS / "benchmarks" / "index.md").read_text(encoding="utf-8")
    tables = {path.name for path in (DOCS / "benchmarks").glob("*.csv")}
    assert set(re.findall(r"[\w-]+\.csv", text)) == tables


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        ("ss.tessellate(model, view)", "splinescope.tiling.tessellate"),
        ("ss.tessellate(model, view).plot()", "splinescope.tiling.tessellate"),
        ("tiling.plot(color='class')", "splinescope.tiling.Tiling.plot"),
        ("fold_distances", "splinescope.normalization.fold_distances"),
        ("ss.LimitReached", "splinescope.support.errors.LimitReached"),
        ("model", None),
        ("torch.where", None),
    ],
)
def test_a_call_leads_to_its_entry(code: str, entry: str | None, calls: ModuleType) -> None:
    assert calls.target(code) == entry


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAKER = runpy.run_path(str(DOCS / "make_notebooks.py"))


def test_there_is_a_notebook_for_each_source() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(MAKER["SOURCES"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_its_page_or_script_with_output(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == MAKER["cells"](path.stem)
    assert sum(len(cell.get("outputs", ())) for cell in cells) > 1


def test_first_steps_shows_what_its_notebook_printed() -> None:
    cells = json.loads((ROOT / "notebooks" / "first-steps.ipynb").read_text(encoding="utf-8"))["cells"]
    printed = [shown["text"] for cell in cells for shown in cell.get("outputs", ()) if "text" in shown]
    page = (DOCS / "first-steps.md").read_text(encoding="utf-8")
    assert re.findall(r"^```text\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE) == printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_its_output(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(devices=[]):
        outputs = MAKER["run"](MAKER["cells"](path.stem))
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [words(shown) for shown in outputs] == [words(cell.get("outputs", ())) for cell in cells]


def words(outputs: Iterable[dict[str, str]]) -> list[tuple[str, str]]:
    """Kind and text of a cell's outputs without numbers, which rounding changes from machine to machine."""
    return [(shown["output_type"], re.sub(r"\d[\d.,e+-]*", "0", shown.get("text", ""))) for shown in outputs]
