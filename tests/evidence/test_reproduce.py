"""`reproduce`: what it writes, and that results of single runs add up to one page and one table."""

from pathlib import Path

import pytest

from splinescope.evidence import reproduce
from splinescope.evidence._pages import read_records, summary
from tests.browser import open_page

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evidence")
    for one in ("meanfield-prop1", "decomposed-lemma2"):  # two runs into one folder
        reproduce([one], out=out, size="quick")
    return out


def test_runs_of_single_experiments_add_up_to_one_table(folder: Path) -> None:
    table = (folder / "summary.md").read_text(encoding="utf-8")
    assert table.index("meanfield-prop1") < table.index("decomposed-lemma2")  # in the order of the documents
    claims = [claim for record in read_records(folder) for claim in record["claims"]]
    rows = [line for line in table.splitlines() if "**" in line]
    assert len(rows) == len(claims) > 2
    assert all(f"**{claim['verdict']}**" in row for claim, row in zip(claims, rows, strict=True))


def test_signs_of_markdown_in_a_claim_stay_in_their_cell() -> None:
    claim = {"text": "a | b_1 * `c`", "verdict": "holds", "measured": "$x$ < 1"}
    record = {"id": "x", "document": "survey", "size": "quick", "seconds": 1.0, "claims": [claim]}
    row = summary([record]).splitlines()[-1]
    assert row.endswith(r"| a \| b\_1 \* \`c\` | **holds** | \$x\$ \< 1 |")


def test_page_shows_every_figure_and_verdict(folder: Path) -> None:
    with open_page(folder / "index.html", allow=(folder.as_uri(),)) as page:
        assert page.locator("section").count() == 2
        assert page.get_by_text("quick size: a first look, full size decides").count() == 2
        widths = page.eval_on_selector_all("img", "images => images.map(i => i.naturalWidth)")
        assert len(widths) == 2
        assert min(widths) > 100
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # nothing sticks out
