"""`reproduce`: what it writes, that runs add up, go on where they stopped and share the work, and who is judged."""

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import pytest
import torch
from click.testing import CliRunner
from tests.browser import open_page

import splinescope as ss
from splinescope.cli import main
from splinescope.support.files import replacing
from splinescope_evidence import Outcome, find, ids, reproduce, source_of
from splinescope_evidence.framework import reproduce as running
from splinescope_evidence.framework.pages import page, read_records
from splinescope_evidence.framework.parts import part, parts_in

pytest.importorskip("matplotlib").use("Agg")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evidence")
    for one in ("meanfield-prop1", "decomposed-lemma2"):  # two runs into one folder
        reproduce([one], out=out, size="quick")
    return out


def test_runs_of_single_experiments_add_up_by_document(folder: Path) -> None:
    records = json.loads((folder / "records.json").read_text(encoding="utf-8"))
    assert [record["id"] for record in records] == ["meanfield-prop1", "decomposed-lemma2"]


def test_one_id_by_itself_is_that_experiment(folder: Path) -> None:
    assert list(reproduce("meanfield-prop1", out=folder, size="quick")) == ["meanfield-prop1"]


def test_a_quick_run_judges_nothing(folder: Path) -> None:
    claims = [claim for record in read_records(folder) for claim in record["claims"]]
    assert {claim["verdict"] for claim in claims} == {"not judged"}


def test_page_shows_every_figure_and_verdict(folder: Path) -> None:
    with open_page(folder / "index.html", allow=(folder.as_uri(),)) as shown:
        assert shown.locator("section").count() == 2
        assert shown.get_by_text("quick size: it works, which judges nothing").count() == 2
        shown.wait_for_function("() => [...document.images].every(image => image.complete)")
        widths = shown.eval_on_selector_all("img", "images => images.map(i => i.naturalWidth)")
        assert len(widths) == 2
        assert min(widths) > 100
        assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # nothing sticks out


def test_a_second_run_goes_on_where_the_first_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept: same source, size and seed. Run again: another seed, a changed source, or if asked."""
    seen: list[tuple[float, str]] = []

    def again(**options: object) -> list[str]:
        seen.clear()
        reproduce(["decomposed-lemma2"], out=folder, size="quick", progress=lambda *a: seen.append(a), **options)  # type: ignore[arg-type]
        return [what.removeprefix("decomposed-lemma2: ") for share, what in seen if share == 1.0]

    assert again() == ["kept"]
    assert again(fresh=True) == ["done"]
    assert again(seed=1) == ["done"]
    assert again(seed=1) == ["kept"]
    monkeypatch.setattr("splinescope_evidence.framework.reproduce.source_of", lambda _: "another")
    assert again(seed=1) == ["done"]


def test_an_interrupted_run_goes_on_with_the_part_that_it_stopped_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts count by source, size and seed; with them it gives what it would have in one go, and then they are gone."""
    made: list[int] = []
    stop = True

    def measure(self: Any, size: str, seed: int, progress: Any) -> Outcome:
        def number(i: int) -> dict[str, Any]:
            if stop and i == 2:
                raise KeyboardInterrupt
            made.append(i)
            return {"rows": torch.tensor([seed, i])}

        return Outcome({"rows": [part(f"network {i}", lambda i=i: number(i))["rows"] for i in range(3)]}, ())

    from matplotlib.figure import Figure

    long = replace(find("decomposed-thm14"), draw=lambda numbers: Figure())
    monkeypatch.setattr(type(long), "measure", measure)
    monkeypatch.setattr(running, "find", lambda name: long)
    with pytest.raises(KeyboardInterrupt):
        reproduce("decomposed-thm14", out=tmp_path, size="quick")
    assert made == [0, 1]
    stop = False
    reproduce("decomposed-thm14", out=tmp_path, size="quick", seed=1)
    assert made == [0, 1, 0, 1, 2]
    assert reproduce("decomposed-thm14", out=tmp_path, size="quick")["decomposed-thm14"].numbers == {
        "rows": [[0, 0], [0, 1], [0, 2]]
    }
    assert made == [0, 1, 0, 1, 2, 2]
    assert not list(tmp_path.glob("*.parts"))


def test_known_results_are_not_made_again_and_stand_among_the_records(tmp_path: Path) -> None:
    """What the same source made stays; what an older one made is run, or kept as it is if it is not asked for."""
    quick = {"size": "quick", "out": tmp_path / "a"}
    reproduce(["decomposed-sec2", "decomposed-thm14", "meanfield-prop1"], **quick)  # type: ignore[arg-type]
    records = json.loads((tmp_path / "a" / "records.json").read_text())
    for record in records:
        if record["id"] != "decomposed-sec2":
            record["source"] = "older"
    known = tmp_path / "known.json"
    known.write_text(json.dumps(records))
    seen: list[str] = []
    found = reproduce(
        ["decomposed-sec2", "decomposed-thm14"],
        out=tmp_path / "b",
        size="quick",
        known=known,
        progress=lambda share, what: seen.append(what),
    )
    assert [what for what in seen if what.endswith(("kept", "done"))] == [
        "decomposed-sec2: kept",
        "decomposed-thm14: done",
    ]
    assert found["decomposed-sec2"].numbers == {}
    assert found["decomposed-thm14"].numbers
    assert sorted(path.name for path in (tmp_path / "b").glob("*-*.json")) == ["decomposed-thm14.json"]
    merged = json.loads((tmp_path / "b" / "records.json").read_text())
    assert [r["id"] for r in merged] == [r["id"] for r in records]
    assert [r["claims"] for r in merged] == [r["claims"] for r in records]
    assert [r["source"] == "older" for r in merged] == [r["id"] == "meanfield-prop1" for r in merged]
    assert "id='decomposed-sec2'" not in (tmp_path / "b" / "index.html").read_text()  # it has no figure there
    for text in ("not JSON", "{}", '[{"id": 1}]'):
        known.write_text(text)
        with pytest.raises(ss.FileFormatError, match=r"known\.json"):
            reproduce(["decomposed-sec2"], out=tmp_path / "c", size="quick", known=known)


def test_damaged_results_and_parts_are_refused_in_words_or_can_be_read(tmp_path: Path) -> None:
    def kept_part() -> None:
        (tmp_path / "parts").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "part.json", tmp_path / "parts")
        with parts_in(tmp_path / "parts"):
            part("part", list)

    reproduce(["decomposed-sec2"], out=tmp_path, size="quick")
    (tmp_path / "part.json").write_text('{"value": [1, 2.5], "seconds": 0.25}')
    for name, read in (("decomposed-sec2", lambda: page(read_records(tmp_path))), ("part", kept_part)):
        file, refused = tmp_path / f"{name}.json", 0
        content = file.read_bytes()
        for place in range(0, len(content), 1 + len(content) // 200):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
            try:
                read()
            except ss.FileFormatError:
                refused += 1
        assert refused > 10
        file.unlink()


def test_jobs_share_the_work_and_write_the_same(tmp_path: Path) -> None:
    names = ["decomposed-thm13", "decomposed-thm14", "decomposed-sec2"]
    alone = reproduce(names, out=tmp_path / "a", size="quick")
    with joblib.parallel_config(backend="threading"):  # processes would load torch twice
        shared = reproduce(names, out=tmp_path / "b", size="quick", jobs=2)
    assert list(shared) == names
    assert [o.claims for o in shared.values()] == [o.claims for o in alone.values()]
    assert (tmp_path / "b" / "records.json").is_file()
    with pytest.raises(ss.InputError, match="jobs must be a whole number"):
        reproduce(names, out=tmp_path, jobs=0)


def test_the_command_hands_its_seed_to_the_run(tmp_path: Path) -> None:
    """Numbers of one seed are those of the experiment run with it, and not those of another."""
    numbers = {}
    for seed in (0, 7):
        arguments = [
            "reproduce",
            "decomposed-thm14",
            "--quick",
            "--seed",
            str(seed),
            "--out",
            str(tmp_path / str(seed)),
        ]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        record = json.loads((tmp_path / str(seed) / "decomposed-thm14.json").read_text())
        assert record["seed"] == seed
        numbers[seed] = record["numbers"]
        own = find("decomposed-thm14").measure(size="quick", seed=seed).numbers
        assert numbers[seed]["rows"] == json.loads(json.dumps(own["rows"]))
    assert numbers[0]["rows"] != numbers[7]["rows"]


def test_two_seeds_of_an_experiment_share_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval over 60 starts that is measured again with another seed must be over 60 others."""
    from splinescope_evidence.meanfield import thm4

    drawn: list[set[int]] = []

    class Seen(Exception):
        pass

    def study(*_: object, seeds: range, **__: object) -> None:
        drawn.append(set(seeds))
        raise Seen

    monkeypatch.setattr(thm4, "convergence_study", study)
    for seed in (0, 1, 2):
        with pytest.raises(Seen):
            find("meanfield-thm4").measure(seed=seed)
    assert [len(starts) for starts in drawn] == [60] * 3
    assert len(set.union(*drawn)) == 180


PLACE = r"(?i)\b(equations?|figures?|theorem|proposition|corollary|lemma|definition|section|part)\b"


def test_every_experiment_on_a_document_says_where_in_it_it_stands() -> None:
    for name in (name for name in ids() if not name.startswith("own-")):
        assert re.search(PLACE + ".{2}", find(name).place), name  # more than the word


def test_the_page_shows_places_and_which_criteria_were_revised() -> None:
    """Read when the page is written: neither makes a result stale."""
    records = json.loads((ROOT / "docs" / "evidence.json").read_text(encoding="utf-8"))
    shown = page(records)
    marks = sum(len(find(record["id"]).revised) for record in records)
    assert shown.count("<em>(Criterion revised after a full run.)</em>") == marks > 50
    for record in records:
        assert set(find(record["id"]).revised) <= set(range(1, len(record["claims"]) + 1)), record["id"]
        assert html.escape(find(record["id"]).place) in shown


def test_the_records_of_the_docs_are_of_the_present_code() -> None:
    """What has no record is not measured yet, which is no fault."""
    records = json.loads((ROOT / "docs" / "evidence.json").read_text(encoding="utf-8"))
    stale = [r["id"] for r in records if r["id"] not in ids() or r["source"] != source_of(r["id"])]
    assert not stale, f"docs/evidence.json has other sources of {', '.join(stale)}: run `make evidence`"


def test_outcomes_survive_their_file(folder: Path) -> None:
    kept = reproduce(["meanfield-prop1"], out=folder, size="quick")["meanfield-prop1"]
    assert isinstance(kept, Outcome)
    own = find("meanfield-prop1").measure(size="quick")
    assert kept.claims == own.claims


def test_what_killed_processes_left_half_written_is_put_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(work: Any, items: Any, names: Any, *, workers: int) -> Any:
        yield from ((i, work(*item)) for i, item in enumerate(items))

    def stop(share: float, what: str) -> None:
        with replacing(tmp_path / "figure.png") as partial:
            (tmp_path / f".0a1b2c3d.{partial.name[10:]}").touch()  # as a process that is killed here would leave it
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "share", one_by_one)
    with pytest.raises(KeyboardInterrupt):
        reproduce(["decomposed-thm13", "decomposed-thm14"], out=tmp_path, size="quick", jobs=2, progress=stop)
    assert (tmp_path / "figure.png").exists()
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_an_experiment_runs_on_one_thread_of_torch_whatever_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    experiment = find("decomposed-thm13")
    measure = type(experiment).measure

    def watched(self: Any, **how: Any) -> Outcome:
        seen.append(torch.get_num_threads())
        return measure(self, **how)

    monkeypatch.setattr(type(experiment), "measure", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        reproduce(["decomposed-thm13"], out=tmp_path, size="quick")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1]
