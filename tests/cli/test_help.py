"""The help of every command: it needs no heavy imports, and it has examples."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from gnnak.brec.data import GROUPS
from gnnak.cli import choices
from gnnak.cli.program import app
from gnnak.training.measure.growth import RANGES
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
