"""What is misspelled or missing on the command line is answered at once: before torch is loaded."""

import json
import subprocess
import sys

import numpy as np
from click.testing import CliRunner

from splinescope.cli import main

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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, given], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for (arguments, words), (code, told, loaded) in zip(WRONG, json.loads(done.stdout), strict=True):
        assert (code, loaded) == (2, False), (arguments, told)
        assert words in told
        assert told.count("\n") == 1


def test_a_misspelt_factory_is_answered_with_the_nearest():
    found = CliRunner().invoke(main, ["tessellate", "json:load5"])
    assert (found.exit_code, found.stderr) == (
        2, "Error: MODEL must be package.module:function; json has no 'load5': did you mean 'load'?\n"
    )  # fmt: skip
