"""`splinescope reproduce`: its options reach the run, ids complete, and it loads no more than it needs."""

import inspect
import re
import subprocess
import sys
import warnings

from click.shell_completion import BashComplete
from click.testing import CliRunner

import splinescope_evidence as evidence
from splinescope.cli import main


def test_the_seed_of_reproduce_reaches_the_experiments(monkeypatch, tmp_path):
    seeds = []
    monkeypatch.setattr(evidence, "reproduce", lambda ids, **options: seeds.append(options["seed"]) or {})
    arguments = ["reproduce", evidence.ids()[0], "--quick", "--out", str(tmp_path)]
    for seed in ("7", "0"):
        assert CliRunner().invoke(main, [*arguments, "--seed", seed]).exit_code == 0
    assert seeds == [7, 0]


def test_reproduce_does_not_tell_of_processes_that_loky_replaced(monkeypatch, tmp_path):
    def replaced(ids, **options):
        from joblib.externals.loky import process_executor

        words = inspect.getsource(process_executor)  # the words that loky warns in, not ours
        warnings.warn(re.search(r'"(A worker stopped while some jobs.*?)"', words)[1], UserWarning, stacklevel=1)
        return {}

    monkeypatch.setattr(evidence, "reproduce", replaced)
    result = CliRunner().invoke(main, ["reproduce", evidence.ids()[0], "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output  # a warning is an error in these tests


def test_ids_of_experiments_complete():
    shell = BashComplete(main, {}, "splinescope", "_SPLINESCOPE_COMPLETE")
    found = [item.value for item in shell.get_completions(["reproduce"], "survey-")]
    assert found == [name for name in evidence.ids() if name.startswith("survey-")]
    assert shell.get_completions(["reproduce", "survey-fig9"], "nothing-") == []


def test_completing_is_quick_since_torch_and_matplotlib_stay_out():
    code = (
        "import sys; from click.shell_completion import BashComplete; from splinescope.cli import main\n"
        "BashComplete(main, {}, 's', '_S').get_completions(['reproduce'], 'survey')\n"
        "print('splinescope_evidence' in sys.modules, 'torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told == "True False False\n"


def test_a_misspelled_id_is_answered_with_the_nearest(tmp_path):
    told = CliRunner().invoke(main, ["reproduce", "survey-fig88", "--quick", "--out", str(tmp_path)])
    assert told.exit_code != 0
    assert "No experiment 'survey-fig88': did you mean 'survey-fig8'? There are: " in str(told.output)


def test_the_list_has_every_experiment_with_its_title():
    lines = CliRunner().invoke(main, ["reproduce", "--list"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == evidence.ids()
    assert all(evidence.find(line.split()[0]).title in line for line in lines)
