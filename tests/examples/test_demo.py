"""The demo, at a small size, writes a page whose pictures and links all exist."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch

import splinescope as ss
from tests.browser import open_page

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_writes_a_complete_page(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn", reason="the extra 'data' is not installed")
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", demo)
    spec.loader.exec_module(demo)
    with torch.random.fork_rng():
        demo.main(["--out", str(tmp_path), "--width", "8", "--epochs", "1"])
    text = (tmp_path / "index.html").read_text()
    links = [link for link in re.findall(r"(?:src|href)=[\"']([^\"']+)", text) if not link.startswith("data:")]
    assert len(links) == 11
    for link in links:
        assert (tmp_path / link).stat().st_size > 1000
    assert ss.load_tiling(tmp_path / "plain-after-training.tiling").check().ok
    assert "tiling seconds" in re.sub(r"\s+", " ", text)
    said = capsys.readouterr().out
    assert "plain" in said
    assert f"splinescope studio {tmp_path}" in said
    with open_page(tmp_path / "index.html", allow=(tmp_path.as_uri(),)) as page:
        page.wait_for_function("() => [...document.images].every(image => image.complete)")
        widths = page.eval_on_selector_all("img", "images => images.map(i => i.naturalWidth)")
        assert len(widths) > 3
        assert min(widths) == 8  # the digits; a picture that is missing has none
