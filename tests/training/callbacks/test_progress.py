import io

import pytest
from rich.console import Console

from gnnak.training.processes.machine import Machine
from gnnak.training.run import run
from tests.training.small import small_config, triangles


@pytest.mark.parametrize("width", [60, 80, 120])
def test_progress_lines_fit_the_screen(width, tmp_path):
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    config = small_config(data__target=None, train__epochs=2)
    with console.capture() as capture:
        run(config, triangles(4), tmp_path, Machine("cpu"), console=console)
    shown = Console(width=width).render_str(capture.get()).plain
    assert "triangles gin-ak+ seed 0" in shown
    assert "2/2" in shown
    assert "in epoch" in shown
    assert "…" not in shown


def test_progress_lines_write_the_last_state_to_a_file(tmp_path):
    file = io.StringIO()
    console = Console(file=file, width=80)
    run(small_config(), triangles(4), tmp_path, Machine("cpu"), console=console)
    bar, told = file.getvalue().splitlines()
    assert bar.startswith("triangles gin-ak+ seed 0 ━━━")
    assert bar.endswith(" 3/3 0:00:00")
    assert len(bar) == 80
    assert told.startswith("  loss ")
