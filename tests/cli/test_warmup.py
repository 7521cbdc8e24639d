"""`splinescope warmup` leaves no kernel of a first tiling to be compiled."""

from click.testing import CliRunner

from splinescope.cli import main
from splinescope.support import compile
from splinescope.tiling import kernels


def test_after_a_warmup_nothing_is_left_to_compile(monkeypatch) -> None:
    result = CliRunner().invoke(main, ["warmup", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "kernels are compiled" in result.output
    for kernel in (kernels.split_intervals, kernels.split_polygons, kernels.split_cells, kernels.mark_lost_walls):
        assert kernel.overloads
    begun = []
    monkeypatch.setattr(compile.notice, "begin", begun.append)
    assert CliRunner().invoke(main, ["warmup", "--quiet"]).exit_code == 0
    assert begun == []
