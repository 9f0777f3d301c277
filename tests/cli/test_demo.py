import json
import subprocess
import sys

import pytest

from gnnak import __version__
from tests.cli.training import run


@pytest.mark.heavy
def test_demo_prints_two_accuracies_and_writes_a_picture(tmp_path):
    picture = tmp_path / "new folder" / "demo.png"
    arguments = ["demo", "--epochs", "1", "--json", "--picture", str(picture)]
    told = json.loads(run(*arguments).stdout)
    assert told["accuracy"]["gin"] == 0.5
    assert len(told["accuracy"]) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in picture.parent.iterdir()] == ["demo.png"]


@pytest.mark.heavy
def test_demo_table_names_both_models(tmp_path):
    picture = str(tmp_path / "demo.svg")
    result = run("demo", "--epochs", "1", "--picture", picture)
    assert "gin-ak+" in result.stdout
    assert "50.0%" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--picture", "demo.txt"], "end it in .png, .pdf or .svg"),
        (["demo", "--epochs", "0"], "--epochs is 0; give a number of at least 1"),
        (["demo", "--what"], "No such option"),
        (["demo", "--seed", "-1"], "--seed is -1; give a number of at least 0"),
        (["demo", "--picture", "/dev/null/a.png"], "/dev/null"),
        (["demmo"], "No such command"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails(*arguments)


def test_program_runs_as_a_module_and_prints_its_version():
    command = [sys.executable, "-m", "gnnak.cli", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (told.returncode, told.stdout) == (0, f"gnnak {__version__}\n")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_demo_leaves_the_plain_gnn_at_chance_and_brings_the_uplifted_one_to_all(
    seed, tmp_path
):
    arguments = ["--json", "--seed", str(seed), "--picture", str(tmp_path / "demo.png")]
    accuracy = json.loads(run("demo", *arguments).stdout)["accuracy"]
    assert accuracy == {"gin": 0.5, "gin-ak+": 1.0}
