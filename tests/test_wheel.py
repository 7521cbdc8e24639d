"""The wheel: built, unpacked apart from the sources and used where no extra is installed."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMES = {"scikit-learn": "sklearn"}  # packages that are imported under another name

WITHOUT_EXTRAS = """
import sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {packages!r} else super().find_spec(name, path, target)

sys.meta_path[:] = [WithoutExtras if finder is PathFinder else finder for finder in sys.meta_path]
"""


def extra_packages() -> set[str]:
    words = [re.match(r"[\w-]+", package).group() for packages in EXTRAS.values() for package in packages]
    return {NAMES.get(word, word) for word in words} - {"splinescope", "networkx"}  # torch itself brings networkx


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, and a start-up file that hides every extra."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with zipfile.ZipFile(folder / made.stdout.split()[-1]) as wheel:
        wheel.extractall(folder / "site")
    for kept in (ROOT / "src").rglob("*.nb[ci]"):  # compiled by other tests from the same sources
        place = folder / "site" / kept.relative_to(ROOT / "src")
        place.parent.mkdir(exist_ok=True)
        shutil.copy2(kept, place)
    for source in (ROOT / "src").rglob("kernels/*.py"):
        shutil.copystat(source, folder / "site" / source.relative_to(ROOT / "src"))
    (folder / "site" / "sitecustomize.py").write_text(WITHOUT_EXTRAS.format(packages=extra_packages()))
    return folder / "site"


def run(installed: Path, code: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONNOUSERSITE": "1"}
    made = subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_the_wheel_holds_the_package_and_nothing_else(installed: Path) -> None:
    there = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbi", ".nbc")
    }
    assert sources <= there
    tops = {name.split("/")[0] for name in there} - {"sitecustomize.py"}
    assert tops == {"splinescope", f"splinescope-{PROJECT['version']}.dist-info"}
    assert {"splinescope/py.typed", "splinescope/__init__.pyi", "splinescope/studio/web/index.html"} <= there


def test_the_readme_of_the_wheel_links_to_what_an_index_can_show(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)#]+)\)", metadata.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not link.startswith("https://")]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", metadata.read_text(encoding="utf-8"))
    assert pictures
    assert not [link for link in pictures if "/blob/" in link]  # a page about the picture, not the picture


def test_without_extras_it_tiles_saves_and_reports_in_text(installed: Path, tmp_path: Path) -> None:
    said = run(installed, """
import torch
import splinescope as ss
assert "site/splinescope" in ss.__file__.replace("\\\\", "/")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()
tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
tiling.save("net.tiling")
assert ss.load_tiling("net.tiling").count == tiling.count
print(tiling.summary())
found = ss.report(net, torch.randn(40, 2), torch.arange(40) % 3, out=None, include=["network", "tiles", "complexity"])
assert [block.state for block in found] == ["measured"] * 3, [block.reason for block in found]
print(found.summary())
monitor = ss.ComplexityMonitor(net, torch.randn(4, 2), radius=1.0)
for wanted, call in {
    "plot": lambda: tiling.plot(), "onnx": lambda: ss.load("net.onnx"), "data": lambda: ss.data.digits(),
    "parallel": lambda: ss.tessellate(net, tiling.view, workers=2),
    "tensorboard": lambda: ss.ComplexityMonitor(net, torch.randn(4, 2), radius=1.0, logger="runs"),
    "lightning": lambda: ss.train.lightning_callback(monitor),
    "transformers": lambda: ss.train.trainer_callback(monitor),
    "studio": lambda: ss.studio.serve(browser=False),
}.items():
    if wanted == "onnx":
        open("net.onnx", "wb").write(b"x")
    try:
        call()
    except ss.MissingExtraError as error:
        assert f'pip install "splinescope[{wanted}]"' in str(error), (wanted, str(error))
    else:
        raise AssertionError(wanted)
print("every missing extra is named")
""", tmp_path)  # fmt: skip
    assert "tiles" in said
    assert "every missing extra is named" in said


def test_the_command_line_answers_without_extras(installed: Path, tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['splinescope', '--help']; from splinescope.cli import main; main()"
    assert "tessellate" in run(installed, code, tmp_path)


def test_help_and_import_load_neither_torch_nor_what_is_slow(installed: Path, tmp_path: Path) -> None:
    code = "import splinescope.cli, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    assert set(run(installed, code, tmp_path).split()).isdisjoint({"torch", "numpy", "scipy", "numba"})
