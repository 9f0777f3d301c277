"""The help of every command: it needs no heavy imports, and it has examples."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gnnak.brec.data import GROUPS
from gnnak.cli import options as choices
from gnnak.cli import program
from gnnak.cli.program import app
from gnnak.training.measure.bench import RANGES
from gnnak.wl import HASHES, TESTS
from gnnak.wl.families import FAMILIES
from gnnak.wl.networks import LAB_NETWORKS
from gnnak.wl.pair_tests import READOUTS

HEAVY = (
    "torch",
    "lightning",
    "torch_geometric",
    "torchmetrics",
    "numpy",
    "matplotlib",
    "networkx",
)
RUN_AND_LIST_MODULES = """
import contextlib, io, json, sys
from gnnak.cli import main

codes = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["gnnak", *arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            codes.append(stop.code or 0)
print(json.dumps([codes, sorted(sys.modules)]))
"""


def commands(group, path=()) -> list[tuple[str, ...]]:
    """Return the arguments of `gnnak` for itself, its groups and all commands."""
    found = [path]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*path, name))
    return found


COMMANDS = commands(typer.main.get_command(app))


def test_help_and_version_import_no_heavy_package():
    calls = [["--version"], *([*command, "--help"] for command in COMMANDS)]
    shown = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, json.dumps(calls)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    codes, modules = json.loads(shown.stdout)
    assert codes == [0] * len(calls)
    assert [name for name in HEAVY if name in modules] == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_examples_of_the_command(command):
    shown = CliRunner().invoke(app, [*command, "--help"]).stdout
    _, _, examples = shown.partition("Examples:")
    assert examples.count(" ".join(("gnnak", *command))) >= 2


def test_choices_are_the_keys_of_the_registries():
    assert choices.WL_TESTS == TESTS
    assert choices.WL_HASHES == HASHES
    assert choices.WL_READOUTS == READOUTS
    assert tuple(FAMILIES) == choices.WL_FAMILIES
    assert choices.WL_NETWORKS == LAB_NETWORKS
    assert tuple(GROUPS) == choices.BREC_GROUPS
    assert tuple(RANGES) == choices.GROWING


ROOT = Path(__file__).parents[2]
BROKEN = """
import sys
from gnnak.cli import main, program

def app(**_):
    if "other" in sys.argv:
        raise BrokenPipeError(32, "Broken pipe")
    print("x" * int(sys.argv[1]), flush=True)

program.app = app
main()
"""


def run(argument: str, output: int) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", BROKEN, argument],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("length", ["1", "300000"])
def test_output_that_nobody_reads_ends_the_program_silently(length):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(length, writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_another_broken_pipe_is_an_error_if_the_output_is_read():
    done = run("other", subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: file: Broken pipe\n"


def test_another_broken_pipe_is_one_line_and_exit_code_2(fails, monkeypatch):
    def app(**_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(program, "app", app)
    assert fails("train") == "error: file: Broken pipe\n"
