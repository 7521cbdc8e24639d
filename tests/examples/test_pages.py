"""What the pages show is true: every block of Python in README and docs runs, and every link leads somewhere."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from torch import nn

import splinescope as ss
import splinescope_evidence
import splinescope_research

mpl.use("agg")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
ELSEWHERE = {"docs/operation.md", "docs/first-steps.md", "README.md"}
"""Run in tests/network/ops/test_docs.py, as a notebook in test_manual.py, and with its output below."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def classifier(inputs: int = 2, classes: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, classes)).eval()


def plane() -> dict[str, Any]:
    x = torch.randn(30, 2)
    return {"model": classifier(), "a": classifier(), "b": classifier(), "x": x, "y": torch.arange(30) % 3,
            "x0": x[0], "x1": x[1], "x2": x[2], "view": ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)}  # fmt: skip


def gpt() -> dict[str, Any]:
    transformers = pytest.importorskip("transformers", reason="the transformers extra is not installed")
    sizes = {"n_layer": 4, "n_head": 2, "n_embd": 16, "vocab_size": 50, "n_positions": 32}
    tokens = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(**sizes, **tokens, activation_function="gelu")  # "gelu_new" has no knots
    ids = torch.randint(50, (4, 16))
    return {"model": transformers.GPT2LMHeadModel(config).eval(), "ids": ids, "mask": torch.ones_like(ids),
            "embeddings": torch.randn(1, 8, 16), "v": torch.randn(8 * 16).double().numpy(),
            "text": "a text of length", "ss": ss}  # fmt: skip


def complexity() -> dict[str, Any]:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = classifier(4)

        def forward(self, inputs_embeds: torch.Tensor) -> torch.Tensor:
            return self.part(inputs_embeds)

    names = plane()
    return {**names, "x_test": torch.randn(20, 2), "loader": [names["x"]] * 3, "train_on": lambda batch: None,
            "llm": Embedded(), "embeddings": torch.randn(5, 4)}  # fmt: skip


def normalization() -> dict[str, Any]:
    names = plane()
    return {**names, "loader": names["x"].split(10), "train_loader": [(part,) for part in names["x"].split(10)]}


def solid() -> dict[str, Any]:
    x = torch.randn(4, 5)
    corners = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    return {"model": classifier(5), "x": x[0], "x0": x[0], "x1": x[1], "x2": x[2], "x3": x[3], "center": torch.zeros(5),
            "low": -1.0, "high": 1.0, "origin": torch.zeros(5), "basis": torch.eye(5)[:3],
            "points": corners, "images": x}  # fmt: skip


def smooth() -> dict[str, Any]:
    gelu = nn.Sequential(nn.Linear(2, 6), nn.GELU(), nn.Linear(6, 3)).eval()
    return {**plane(), "model": gelu, "classifier": classifier(), "ss": ss}


def asked() -> dict[str, Any]:
    normed = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    second = {"splinescope_evidence": splinescope_evidence, "splinescope_research": splinescope_research}
    names = {**plane(), **generator(), "ss": ss, **second, "other": classifier()}
    return {**names, "batch_norm_model": normed, "optimizer": torch.optim.SGD(normed.parameters(), 0.1),
            "one_hot": nn.functional.one_hot(names["y"]).float()}  # fmt: skip


def generator() -> dict[str, Any]:
    return {"generator": nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)).eval(), "z": torch.randn(5, 2)}


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/complexity.md": complexity,
    "docs/generative.md": generator,
    "docs/normalization.md": normalization,
    "docs/representation.md": lambda: {"model": classifier(), "batch": torch.randn(10, 2)},
    "docs/smooth.md": smooth,
    "docs/transformers.md": gpt,
    "docs/solid.md": solid,
}
"""What the blocks of a page take for granted."""


OUTSIDE = ("transformers", "tensorboard")  # extras that the tests do without
SHOWING = [page for page in PAGES if blocks(page) and str(page.relative_to(ROOT)) not in ELSEWHERE]


@pytest.mark.parametrize("page", SHOWING, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_runs_as_it_stands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(page.relative_to(ROOT))
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    said = GIVEN.get(name, plane)()
    lacking = []
    with torch.random.fork_rng(devices=[]):
        for number, code in enumerate(blocks(page)):
            try:
                exec(compile(code, f"{name}, block {number + 1}", "exec"), said)
            except (ss.MissingExtraError, ModuleNotFoundError) as error:
                if not any(extra in str(error) for extra in OUTSIDE):
                    raise
                lacking.append(f"block {number + 1}: {error}")
    if lacking:
        pytest.skip(f"ran but for {'; '.join(lacking)}")


QUESTIONS = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
CALLS = re.findall(
    r"^\| [^|]+ \| `((?:ss|splinescope_evidence|splinescope_research)\.[^`]+)` \|", QUESTIONS, flags=re.MULTILINE
)


def test_every_question_has_a_call_and_the_page_has_pictures() -> None:
    rows = re.findall(r"^\| (?!question)[^|]+ \|", QUESTIONS, flags=re.MULTILINE)
    assert len(rows) == len(CALLS) >= 20
    assert len(re.findall(r"\]\((images/gallery/[^)]+)\)", QUESTIONS)) >= 12


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.split("(")[0])
def test_the_call_for_a_question_runs(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # reports are written where one stands
    torch.manual_seed(0)
    assert eval(call, asked()) is not None


def test_the_output_in_readme_is_what_its_code_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(blocks(ROOT / "README.md")) == 1
    code, shown = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as out, torch.random.fork_rng(devices=[]):
        exec(code, {})
    assert out.getvalue() == shown
    assert {path.name for path in tmp_path.iterdir()} == {"tiles.png", "tiles.html"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        goal = (page.parent / file).resolve() if file else page
        if not goal.exists():
            missing.append(target)
        elif anchor and goal.suffix == ".md":
            goals = goal.read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.+)$", goals, flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            slugs |= set(re.findall(r"^\(([\w-]+)\)=$", goals, flags=re.MULTILINE))  # a target by name
            if anchor not in slugs:
                missing.append(target)
    assert missing == []
