"""The architecture: imports run one way, and nothing depends on code for speed."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gnnak
from conftest import NEED_TRITON
from docs.tools.packages import PAGE, imports, modules, package, with_picture
from gnnak.models.factory import BASES

ROOT = Path(gnnak.__file__).parent
ORDER = [
    "errors",
    "typing",
    "optional",
    "device",
    "distributed",
    "backend",
    "graphs",
    "subgraphs",
    "sampling",
    "nn",
    "models",
    "datasets",
    "loading",
    "loop",
    "fast",
    "wl",
    "training",
    "brec",
    "report",
    "cli",
]
"""A package imports from those above it only."""
MOST_FILES = 25
"""Largest number of Python files in a folder; those in subfolders count there."""
PURE = ("graphs", "subgraphs", "sampling", "nn", "models", "loading")
STATEFUL = {"gnnak.device"}
"""Modules with state that calls change: the peak counters of a GPU belong to the
process, as PyTorch's own do."""
CHANGING = (
    "append",
    "add",
    "update",
    "setdefault",
    "pop",
    "popitem",
    "clear",
    "extend",
)
PARSING = (
    "startswith",
    "endswith",
    "removesuffix",
    "removeprefix",
    "split",
    "partition",
)


def inside() -> list[str]:
    """The names of the modules that have a place in the order."""
    return [name for name in modules() if name not in ("gnnak", "gnnak.testing")]


def test_every_package_has_a_place_in_the_order():
    missing = set(ORDER) - {package(name) for name in inside()}
    assert {package(name) for name in inside()} <= set(ORDER)
    assert missing <= {"fast"}, "the rest of the package works without gnnak/fast"


def test_no_folder_has_too_many_files():
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")
    )
    for folder, count in counts.items():
        assert count <= MOST_FILES, folder


def test_the_picture_of_the_packages_is_up_to_date():
    page = PAGE.read_text("utf-8")
    again = "run python -m docs.tools.packages"
    assert with_picture(page) == page, again


def test_files_that_import_triton_are_left_out_where_there_is_none():
    root = ROOT.parent
    files = [*root.glob("gnnak/**/*.py"), *root.glob("tests/**/*.py")]
    for file in files:
        if re.search(r"^(import|from) triton", file.read_text(), re.MULTILINE):
            name = file.relative_to(root)
            assert any(name.match(pattern) for pattern in NEED_TRITON), name


@pytest.mark.parametrize("name", ORDER)
def test_a_package_imports_only_from_packages_above_it(name):
    allowed = set(ORDER[: ORDER.index(name) + 1])
    for module in (module for module in inside() if package(module) == name):
        below = {each for each in imports(module) if package(each) not in allowed}
        assert not below, f"{module} imports {below}"


def test_no_module_is_imported_in_a_circle():
    graph = {name: imports(name) - {name} for name in inside()}
    assert len([*TopologicalSorter(graph).static_order()]) == len(inside())


@pytest.mark.parametrize("name", [*PURE, "datasets", "wl", "training", "report", "cli"])
def test_nothing_imports_code_for_speed(name):
    for module in (module for module in inside() if package(module) == name):
        assert not {each for each in imports(module) if package(each) == "fast"}


def test_only_the_factory_parses_names_of_models():
    for name, tree in modules().items():
        if name == "gnnak.models.factory":
            continue
        for node in ast.walk(tree):
            for text in compared_texts(node):
                parsed = text in BASES or "-ak" in text or text == "-s"
                assert not parsed, f"{name}, line {node.lineno}, compares with {text!r}"


def compared_texts(node: ast.AST) -> list[str]:
    """The texts that something is compared with, or taken apart by."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        parts = list(node.args) if node.func.attr in PARSING else []
    return [
        each.value
        for part in parts
        for each in ast.walk(part)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def test_no_call_changes_state_of_a_module():
    for name, tree in modules().items():
        assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), name
        own = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (
                node.targets if isinstance(node, ast.Assign) else [node.target]
            )
            if isinstance(target, ast.Name)
        }
        changed = {
            used
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for used in changed_names(function) & own
        }
        assert not changed or name in STATEFUL, f"{name}: {changed}"


def changed_names(function: ast.FunctionDef) -> set[str]:
    """The containers that a function changes, by name; its own ones left out."""
    local = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    changed = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed.add(getattr(node.value, "id", ""))
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in CHANGING:
            changed.add(getattr(called.value, "id", ""))
    return changed - local


@pytest.mark.heavy
def test_the_package_works_without_code_for_speed(tmp_path):
    """Train and evaluate in a copy of the package that has no `gnnak/fast`."""
    left_out = shutil.ignore_patterns("fast", "__pycache__")
    shutil.copytree(ROOT, tmp_path / "gnnak", ignore=left_out)
    program = (
        # An editable installation would find `gnnak.fast` in the repository.
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in str(f)]\n"
        "import gnnak, gnnak.backend as b\n"
        f"assert gnnak.__file__.startswith({str(tmp_path)!r})\n"
        "assert b.default_backend() is b.PLAIN\n"
        "from gnnak.cli import main; main()\n"
    )
    command = ["train", "csl", "--fold", "0", "--set", "train.epochs=1"]
    command += ["--set", "model.num_layers=2", "--set", "model.channels=8"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(tmp_path),
            "PATH": "/usr/bin",
            "OMP_NUM_THREADS": "1",
            "GNNAK_CACHE": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
