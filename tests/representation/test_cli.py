"""The verb, and what every verb reads: models and arrays, with bad input as one line and exit code 2."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

from splinescope import FileFormatError, InputError
from splinescope.cli import main
from splinescope.cli.inputs import read_array, read_model

SOURCE = """
from torch import nn
def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
def number():
    return 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy_nets_for_cli.py").write_text(SOURCE)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 6)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_table_and_json_and_picture(folder: Path) -> None:
    arguments = ["representation", "toy_nets_for_cli:make", "--data", "x.npy", "--shape", "2,3"]
    table = CliRunner().invoke(main, [*arguments, "--plot", "depth.png"])
    assert table.exit_code == 0, table.output
    assert "relu" in table.output
    assert (folder / "depth.png").stat().st_size > 1000
    out = CliRunner().invoke(main, [*arguments, "--json", "--rows", "10"])
    assert out.exit_code == 0, out.output
    record = json.loads(out.stdout)
    assert record["layers"][0]["points"] == 10


def test_bad_input_is_one_line_and_exit_code_2(folder: Path) -> None:
    np.save("narrow.npy", np.ones((20, 5)))
    for arguments, message in [
        (["nowhere:make", "--data", "x.npy"], "nowhere"),
        (["toy_nets_for_cli:number", "--data", "x.npy"], "torch.nn.Module, got int"),
        (["toy_nets_for_cli", "--data", "x.npy"], "package.module:factory"),
        (["toy_nets_for_cli:make", "--data", "x.txt"], "must end in"),
        (["toy_nets_for_cli:make", "--data", "missing.npy"], "missing.npy"),
        (["toy_nets_for_cli:make", "--data", "x.npy", "--shape", "7"], "does not fill"),
        (["toy_nets_for_cli:make", "--data", "x.npy", "--shape", "a"], "--shape must be whole numbers"),
        (["toy_nets_for_cli:make", "--data", "narrow.npy"], "shape (20, 5)"),
        (["toy_nets_for_cli:make", "--data", "x.npy", "--plot", "depth.xyz"], ".png, .svg, .pdf"),
        (["toy_nets_for_cli:make", "--data", "x.npy", "--rows", "-1"], "--rows"),
    ]:
        result = CliRunner().invoke(main, ["representation", *arguments])
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_weights_are_loaded(folder: Path, ending: str) -> None:
    model = read_model("toy_nets_for_cli:make")
    assert isinstance(model, nn.Module)
    assert not model.training
    state = {name: torch.ones_like(value) for name, value in model.state_dict().items()}
    path = str(folder / f"w{ending}")
    torch.save(state, path) if ending == ".pt" else save_file(state, path)
    loaded = read_model("toy_nets_for_cli:make", path)
    assert isinstance(loaded, nn.Module)
    assert all((parameter == 1).all() for parameter in loaded.parameters())
    short = str(folder / f"short{ending}")
    torch.save({}, short) if ending == ".pt" else save_file({"a": torch.zeros(1)}, short)
    with pytest.raises(InputError, match="does not fit"):
        read_model("toy_nets_for_cli:make", short)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("exploded"),)  # type: ignore[return-value]


def test_pickles_are_never_run(folder: Path) -> None:
    for name in ("bomb.pt", "bomb.npy"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(FileFormatError):
            read_array(name)
    with pytest.raises(FileFormatError):
        read_model("toy_nets_for_cli:make", "bomb.pt")
    assert not (folder / "exploded").exists()


def test_arrays_of_every_kind_are_read_alike(folder: Path) -> None:
    x = np.arange(6.0).reshape(3, 2)
    np.savez(folder / "one.npz", x)
    np.savez(folder / "two.npz", a=x, b=2 * x)
    np.savetxt(folder / "plain.csv", x, delimiter=",")
    np.savetxt(folder / "named.csv", x, delimiter=",", header="first,second", comments="")
    torch.save(torch.from_numpy(x), folder / "x.pt")
    for name in ("one.npz", "two.npz:a", "plain.csv", "named.csv", "x.pt"):
        assert np.array_equal(read_array(name), x)
    assert read_array("x.pt", (1, 2)).shape == (3, 1, 2)
    with pytest.raises(InputError, match=r"a, b.*two\.npz:NAME"):
        read_array("two.npz")
    (folder / "bad.csv").write_text("1,2\n3\n")
    with pytest.raises(FileFormatError, match=r"bad\.csv"):
        read_array("bad.csv")
