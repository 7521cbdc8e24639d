"""What a release is made from agrees with itself: versions, dependencies, the recipe and the workflow."""

from __future__ import annotations

import ast
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
    assert PROJECT["version"] == ss.__version__
    assert f'version: "{ss.__version__}"' in RECIPE
    assert re.search(rf"^version: [\"']?{re.escape(ss.__version__)}[\"']?$", citation, flags=re.MULTILINE)


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
    extras = {"starlette", "uvicorn", "h11"}  # of the studio, whose modules load when it is started
    assert outside - extras <= declared


def test_the_workflow_keeps_no_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert "id-token: write" in text
