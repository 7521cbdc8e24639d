"""Files of data that are damaged: one line of an error and exit code 2, and no memory asked for."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import pytest
from click.testing import CliRunner

import splinescope as ss
from splinescope.cli import main
from splinescope.cli.inputs import read_array

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
