"""The help of every command: it needs no heavy imports, and it has examples."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from gnnak.brec.data import GROUPS
from gnnak.cli import names as choices
from gnnak.cli import program
from gnnak.cli.program import app
from gnnak.datasets import DATASETS
from gnnak.datasets.own.options import SPLITS, TASK_NAMES, TASKS
from gnnak.datasets.record import METRICS, Protocol
from gnnak.graphs.readers.npz import PARTS
from gnnak.models.bases import BASES
from gnnak.models.factory import SUFFIXES, model_names
from gnnak.models.members import MEMBERS
from gnnak.report.cells import table_names
from gnnak.training.config.experiment import flat
from gnnak.training.config.run_config import RunConfig
from gnnak.training.measure.bench import RANGES
from gnnak.training.processes.machine import Accelerator
from gnnak.training.trained import shipped_names
from gnnak.wl import HASHES, TESTS
from gnnak.wl.families import FAMILIES
from gnnak.wl.lab import LAB_NETWORKS
from gnnak.wl.pair_tests import READOUTS

ROOT = Path(__file__).parents[2]
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


WRONG = """
train zink
train none.yaml
train none.csv --target logp
train graphs/none --target logp
train m.csv --targets none.csv
train m.csv --split files --validation none.csv
train m.csv --split files --validation m.csv --test none.csv
train m.csv --metric mse2
train m.csv --task rank
train m.csv --split sorted
train zinc --model gim
train zinc --set train.epoch=3
train zinc --set model.subgraphs.hops=3
train zinc --set epoch=3
train zinc --set train.epochs
train zinc --protocol seen
train zinc --accelerator tpu
sweep zink --over model=gin
sweep zinc --over epoch=1,2
bench zinc --model gim
evaluate none.ckpt
evaluate m.ckpt none.csv
evaluate m.ckpt --part tset
evaluate m.ckpt --metric mse2
predict none.ckpt m.csv
predict m.ckpt none.csv
predict m.ckpt m.csv -o out.xls
predict m.ckpt m.csv --nodes x
extract zink
datasets describe zink
datasets prepare zink
table simulate
table --tables simulation,turbo
table simulation --run --set train.epoch=3
brec --model gim
wl compare none.g6 m.g6
wl compare m.g6 m.g6 --test gin-ak++
wl explain m.g6 none.g6
wl explain m.g6 m.g6 --test gin-ak++
wl explain m.g6 m.g6 --hash md5
wl explain m.g6 m.g6 --readout v
wl lab --network gim
wl brec --test 9-wl
"""
"""Commands with a wrong argument that needs no PyTorch to be judged."""


def test_wrong_arguments_are_answered_before_pytorch_is_imported(tmp_path):
    for name in ("m.csv", "m.g6", "m.ckpt"):
        (tmp_path / name).touch()
    calls = [line.split() for line in WRONG.strip().splitlines()]
    shown = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, json.dumps(calls)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    codes, modules = json.loads(shown.stdout)
    assert codes == [2] * len(calls)
    assert [name for name in HEAVY if name in modules] == []
    lines = shown.stderr.splitlines()
    assert [line[:7] for line in lines] == ["error: "] * len(calls)


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
    assert tuple(BASES) == choices.BASES
    assert tuple(MEMBERS) == choices.MEMBERS
    assert choices.SUFFIXES == SUFFIXES
    assert tuple(METRICS) == choices.METRICS
    assert {*TASKS, *TASK_NAMES} == {*choices.TASKS}
    assert choices.SPLITS[:-1] == SPLITS
    assert get_args(Protocol) == choices.PROTOCOLS
    assert choices.PARTS == PARTS
    assert get_args(Accelerator) == choices.ACCELERATORS
    assert sorted(DATASETS) == choices.DATASETS
    assert sorted(table_names()) == choices.TABLES
    assert sorted(flat(asdict(RunConfig()))) == sorted(choices.OPTIONS)


@pytest.mark.parametrize("name", [*model_names(), "GIN-AK+", "my.layers:Conv-ak+"])
def test_check_model_accepts_all_names_of_models(name):
    assert choices.check_model(name) == name


def test_check_trained_accepts_installed_networks():
    for name in shipped_names():
        assert choices.check_trained(Path(name)) == Path(name)


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
