"""Every code block of README.md and docs/ is run, or says why it is not."""

import csv
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from gnnak.cli.program import app
from gnnak.errors import GnnakError
from tests.docs.blocks import PAGES, ROOT, Block, blocks, blocks_of, commands

LANGUAGES = {"python", "sh", "text", "bibtex"}
SLOW = {"docs/own-data.md", "docs/own-loop.md", "docs/recipes.md"}
"""Pages whose Python code trains for long, or compiles a model."""
OWN_FILES = {"docs/own-data.md"}
"""Pages whose commands name checkpoints of the reader: only options are checked."""
HAS_PYTHON = [
    page for page in PAGES if any(b.language == "python" for b in blocks_of(page))
]
SHELL = blocks("sh")


def _page(path: Path) -> object:
    name = path.relative_to(ROOT).as_posix()
    marks = [pytest.mark.slow] if name in SLOW else [pytest.mark.heavy]
    return pytest.param(path, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore:.*LeafSpec", "ignore:.*does not have many workers")
@pytest.mark.parametrize("page", [_page(path) for path in HAS_PYTHON])
def test_python_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write_example_files(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python" and block.reason is None:
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, block.page, "exec"), namespace)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [block for block in SHELL if block.reason is None and block.page not in OWN_FILES],
    ids=lambda block: f"{block.page}:{block.line}",
)
def test_shell_block_runs_as_pasted(block, tmp_path):
    start = 'gnnak() { "$PYTHON" -m gnnak.cli "$@"; }\n'
    start += 'torchrun() { "$PYTHON" -m torch.distributed.run "$@"; }\n'
    _write_example_files(tmp_path)
    done = subprocess.run(
        ["bash", "-e", "-c", start + block.code],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("block", SHELL, ids=lambda block: f"{block.page}:{block.line}")
def test_commands_have_known_options(block):
    for command in commands(block):
        with suppress(GnnakError):  # the files and folders are not there
            parse(shlex.split(command))


def test_a_command_with_an_unknown_option_is_noticed():
    with pytest.raises(Exception, match="No such option: --modell"):
        parse(["train", "zinc", "--modell", "gin"])
    with pytest.raises(Exception, match="No such command 'tarin'"):
        parse(["tarin", "zinc"])


def test_blocks_name_their_language():
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language in LANGUAGES, f"{block.page}, line {block.line}"


def test_readme_has_code_for_both_users():
    languages = [block.language for block in blocks_of(ROOT / "README.md")]
    assert languages.count("python") >= 3
    assert languages.count("sh") >= 3


def test_commands_are_found_in_a_shell_block():
    code = "cat > a <<'END'\ngnnak no\nEND\ngnnak wl lab \\\n    --json  # all\n"
    code += "srun gnnak report\ntorchrun --nnodes 2 -m gnnak.cli train zinc\n"
    found = commands(Block("page", 1, "sh", code, None))
    assert [shlex.split(one) for one in found] == [
        ["wl", "lab", "--json"],
        ["report"],
        ["train", "zinc"],
    ]


def parse(arguments: list[str]) -> None:
    """Parse the arguments of `gnnak` without running the command."""
    command, context, name = typer.main.get_command(app), None, "gnnak"
    while True:
        context = command.make_context(name, arguments, parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        name, command, arguments = command.resolve_command(context, rest)


def _write_example_files(folder: Path) -> None:
    """Write the tables that docs/own-data.md takes for granted; link `examples/`."""
    smiles = ["C" * n + end for n in range(1, 8) for end in ("O", "N", "Cl")]
    rows = [f"{one},{len(one)}" for one in smiles]
    (folder / "molecules.csv").write_text("\n".join(["smiles,logp", *rows]) + "\n")
    (folder / "new.csv").write_text("smiles\nCCO\nno molecule\n")
    (folder / "examples").symlink_to(ROOT / "examples")


def test_example_files_have_the_promised_rows():
    folder = ROOT / "examples"
    tables = {
        name: list(csv.DictReader((folder / name).read_text("utf-8").splitlines()))
        for name in ("molecules.csv", "new.csv", "labels.csv")
    }
    assert len(tables["molecules.csv"]) == 500
    known = {row["smiles"] for row in tables["molecules.csv"]}
    assert len(known) == 500
    new = [row["smiles"] for row in tables["new.csv"]]
    assert len(new) == 200
    assert not known & set(new)
    graphs = (folder / "graphs.g6").read_text().splitlines()
    assert len(graphs) == len(tables["labels.csv"]) == 120
