"""What a release is made from agrees with itself: versions, dependencies, the recipe and the workflow."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import splinescope as ss

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
CONDA_NAMES = {"torch": "pytorch"}


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))["version"] == ss.__version__
    evidence = tomllib.loads((ROOT / "evidence" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert PROJECT["version"] == evidence["version"] == ss.__version__
    assert evidence["dependencies"][0].endswith(f"=={ss.__version__}")
    assert f'version: "{ss.__version__}"' in RECIPE
    assert re.search(rf"^version: [\"']?{re.escape(ss.__version__)}[\"']?$", citation, flags=re.MULTILINE)


def test_the_source_distribution_has_what_its_tests_and_makefile_read() -> None:
    from hatchling.builders.sdist import SdistBuilder

    held = {Path(file.distribution_path).as_posix() for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {"README.md", "CONTRIBUTING.md", "codemeta.json", "packaging/conda/recipe.yaml"} <= held
    assert {"evidence/pyproject.toml", "benchmarks/regions/reference.py", "notebooks/first-steps.ipynb"} <= held
    assert {"src/splinescope/__init__.pyi", ".github/workflows/test.yml"} <= held
    assert not {name for name in held if name.startswith((".ci", ".git/", ".venv", "out/", "dist/"))}


def test_the_second_distribution_brings_its_license_and_links_that_an_index_can_follow() -> None:
    folder = ROOT / "evidence"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert set(PROJECT["urls"]) == set(project["urls"])
    links = re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert links
    assert all(link.startswith("https://") for link in links)


def test_examples_of_the_second_distribution_say_that_it_is_needed_and_notebooks_install_it() -> None:
    for file in (ROOT / "examples").rglob("plot_*.py"):
        text = file.read_text(encoding="utf-8")
        if re.search(r"^(from|import) splinescope_", text, flags=re.MULTILINE):
            assert "pip install splinescope-evidence" in (ast.get_docstring(ast.parse(text)) or ""), file.name
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        codes = [cell["source"] for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
        uses = any(re.search(r"^(from|import) splinescope_", code, flags=re.MULTILINE) for code in codes)
        assert uses == any("#subdirectory=evidence" in code for code in codes), file.name


def test_the_recipe_asks_for_what_the_project_asks_for() -> None:
    run = RECIPE.split("  run:\n", 1)[1].split("\n\n", 1)[0]
    asked = dict(re.findall(r"- (\S+) (>=\S+)", run))
    wanted = dict(re.match(r"([\w-]+)(>=\S+)", line).groups() for line in PROJECT["dependencies"])
    wanted = {CONDA_NAMES.get(name, name): bound for name, bound in wanted.items()}
    assert asked == {"python": PROJECT["requires-python"], **wanted}


def test_every_import_of_the_package_is_declared() -> None:
    """Third-party names imported at module level by the package without an extra are dependencies."""
    declared = {re.match(r"[\w-]+", line).group().lower().replace("-", "_") for line in PROJECT["dependencies"]}
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).split(".")[0])
    outside = found - set(sys.stdlib_module_names) - {"splinescope"}
    extras = {"starlette", "uvicorn"}  # of the studio, whose modules load when it is started
    assert outside - extras <= declared


def test_workflows_keep_no_secret_and_publish_by_identity() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert set(texts) == {"test", "docs", "release"}
    assert not [name for name, text in texts.items() if "secrets." in text]
    assert "id-token: write" in texts["release"]


def test_text_is_read_and_written_in_utf8_whatever_the_system_takes() -> None:
    """Windows and LC_ALL=C take other encodings for a file whose own is not said."""
    unsaid = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if name in {"read_text", "write_text"} and "encoding" not in {word.arg for word in node.keywords}:
                unsaid.append(f"{file.name}, line {node.lineno}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                binary = any(isinstance(a, ast.Constant) and "b" in str(a.value) for a in node.args[1:])
                if not binary and "encoding" not in {word.arg for word in node.keywords}:
                    unsaid.append(f"{file.name}, line {node.lineno}")
    assert not unsaid


def test_what_windows_lacks_is_asked_for_where_the_system_was_asked_first() -> None:
    """fcntl and O_NOFOLLOW exist on POSIX alone; `os.rename` fails there where a file is, `Path.replace` does not."""
    guarded = {"files.py": 'sys.platform != "win32"'}
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "os.rename(" not in text, file
        if re.search(r"\bfcntl\.|O_NOFOLLOW|os\.fork\(|signal\.SIGKILL", text):
            assert guarded[file.name] in text, file
