"""Misspelled, missing and damaged files are told in one line with exit code 2; bad paths before torch is loaded."""

import io
import json
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import splinescope as ss
from splinescope.cli import main
from splinescope.cli.inputs import read_array

WRONG = [
    (["report", "absent.onnx", "--data", "x.npy"], "existing file, got 'absent.onnx'"),
    (["report", "absent_package:net", "--data", "x.npy"], "No module named 'absent_package'"),
    (["report", "json:loads", "--data", "absent.npy"], "existing file, got 'absent.npy'"),
    (["report", "json:loads", "--data", "x.npy", "--labels", "absent.npz:y"], "existing file, got 'absent.npz'"),
    (["report", "json:loads", "--data", "x.npy", "--out", "absent/r.html"], "folder absent does not exist"),
    (["compare", "a=absent.onnx", "b=json:loads", "--data", "x.npy"], "existing file, got 'absent.onnx'"),
    (["complexity", "json:loads", "--data", "x.tiff"], "must end in .npy"),
    (["tessellate", "absent.nnet"], "existing file, got 'absent.nnet'"),
    (["tessellate", "json:loads", "--points", "absent.csv"], "existing file, got 'absent.csv'"),
    (["tessellate", "json:loads", "--plot", "a.gif"], "--plot must end in .png, .svg, .pdf"),
    (["landscape", "absent.onnx", "--data", "x.npy"], "existing file, got 'absent.onnx'"),
    (["volume", "json:loads", "--latents", "absent.npy"], "existing file, got 'absent.npy'"),
    (["timeline", ".", "--model", "json:loads", "--data", "train=absent.npy"], "existing file, got 'absent.npy'"),
    (["complexity", "json:loads", "--data", "x.npy", "--radius", "wide"], "--radius must be a number or auto"),
    (["tesselate", "net.onnx"], "did you mean 'tessellate'?"),
    (["report", "json:loads", "--dta", "x.npy"], "--data"),
]

SCRIPT = """
import json, sys
from click.testing import CliRunner
from splinescope.cli import main
told = []
for arguments in json.loads(sys.argv[1]):
    found = CliRunner().invoke(main, arguments)
    told.append([found.exit_code, found.stderr, "torch" in sys.modules])
print(json.dumps(told))
"""


def test_a_bad_path_is_refused_before_torch_is_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    given = json.dumps([arguments for arguments, _ in WRONG])
    done = subprocess.run([sys.executable, "-c", SCRIPT, given], cwd=tmp_path, capture_output=True, check=True)
    for (arguments, words), (code, told, loaded) in zip(WRONG, json.loads(done.stdout), strict=True):
        assert (code, loaded) == (2, False), (arguments, told)
        assert words in told
        assert told.count("\n") == 1


def test_a_misspelt_factory_is_answered_with_the_nearest():
    found = CliRunner().invoke(main, ["tessellate", "json:load5"])
    assert (found.exit_code, found.stderr) == (
        2, "Error: MODEL must be package.module:function; json has no 'load5': did you mean 'load'?\n"
    )  # fmt: skip


NNET = "1,2,1,2,\n2,1,\n0,\n0,0,\n1,1,\n0,0,0,\n1,1,1,\n1.0,2.0,\n0.5,\n"


def npy(shape: str, body: bytes = b"\0" * 64, dtype: str = "<f8") -> bytes:
    """A .npy file that says it has this shape."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def npz(member: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", member)
    return buffer.getvalue()


DATA = {
    "16 GB in a few bytes.npy": npy("(2147483648, 1)"),
    "16 GB in a few bytes.npz": npz(npy("(2147483648, 1)")),
    "a negative size.npy": npy("(-1, 2)"),
    "a size of words.npy": npy("('two', 2)"),
    "half a header.npy": npy("(2, 2)")[:30],
    "objects.npy": npy("(2, 2)", dtype="|O"),
    "letters.npy": npy("(2, 2)", dtype="<U2"),
    "no npy inside.npz": npz(b"nothing"),
    "no zip.npz": b"PK\x03\x04 nothing",
    "bad UTF-8.csv": b"1,2\n\xff\xfe,3\n",
    "ragged.csv": b"1,2\n3\n",
    "nothing.pt": b"PK\x03\x04 nothing",
}


@pytest.mark.parametrize("name", DATA)
def test_damaged_data_is_one_line_and_exit_code_2(name, tmp_path):
    (tmp_path / "net.nnet").write_text(NNET)
    (tmp_path / name).write_bytes(DATA[name])
    tracemalloc.start()
    result = CliRunner().invoke(main, ["complexity", str(tmp_path / "net.nnet"), "--data", str(tmp_path / name)])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert name in result.stderr
    assert result.stderr.count("\n") == 1
    assert most < 2**30
    with pytest.raises(ss.FileFormatError):
        read_array(str(tmp_path / name))
