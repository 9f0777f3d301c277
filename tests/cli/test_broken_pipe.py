"""Pipes whose reader has ended: standard output, and others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnnak.cli import program

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
