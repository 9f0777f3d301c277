"""The site: every page is in the navigation, every public name in the reference."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest
import yaml

import gnnak
from tests.docs.blocks import PAGES, ROOT

DOCS = ROOT / "docs"
PACKAGES = (
    "graphs",
    "subgraphs",
    "sampling",
    "nn",
    "nn.family",
    "models",
    "datasets",
    "wl",
)
REFERENCE = "\n".join(
    page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.md"))
)
MAX_WIDTH = 100


def documented() -> set[str]:
    """Return the full names that the API reference documents."""
    names = set(re.findall(r"^::: (gnnak[\w.]*)", REFERENCE, re.MULTILINE))
    names |= set(re.findall(r"^ +heading: (gnnak[\w.]*)", REFERENCE, re.MULTILINE))
    family = re.search(
        r"^::: gnnak.nn.family\n.*?members: \[(.*?)\]", REFERENCE, re.M | re.S
    )
    assert family is not None
    return names | {f"gnnak.nn.family.{name}" for name in family[1].split(", ")}


def test_every_public_name_is_in_the_reference():
    known = documented()
    for name in set(gnnak.__all__) - {"wl"}:
        assert f"gnnak.{name}" in known
    for package in PACKAGES:
        module = importlib.import_module(f"gnnak.{package}")
        for name in module.__all__:
            full = {f"gnnak.{package}.{name}", f"gnnak.nn.{name}", f"gnnak.{name}"}
            assert full & known, f"gnnak.{package}.{name} is not in docs/api"


def test_every_documented_name_exists():
    for name in documented():
        home, _, last = name.rpartition(".")
        try:
            assert hasattr(importlib.import_module(home), last), name
        except ModuleNotFoundError:
            assert importlib.import_module(name)


def test_every_documented_class_function_and_method_has_a_docstring():
    for name in documented():
        home, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(home), last)
        if not inspect.isclass(found) and not inspect.isfunction(found):
            continue
        methods = vars(found).items() if inspect.isclass(found) else ()
        named = {name: found} | {
            f"{name}.{key}": value
            for key, value in methods
            if callable(value) and not key.startswith("_")
        }
        for full, value in named.items():
            assert inspect.getdoc(value), f"{full} has no docstring"


def test_navigation_has_every_page_and_notebook():
    listed = re.findall(r"[\w/.-]+\.md\b", (ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    pages |= {
        page.relative_to(DOCS).with_suffix(".md").as_posix()
        for page in DOCS.rglob("*.ipynb")
    }
    assert pages | {"changelog.md", "contributing.md", "security.md"} == set(listed)
    assert len(listed) == len(set(listed))


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        text = page.read_text("utf-8")
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_readme_has_no_table_wider_than_a_screen():
    text = (ROOT / "README.md").read_text("utf-8")
    shown = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in shown.splitlines()
        if line.startswith("|")
    ]
    assert rows
    for row in rows:
        assert sum(len(cell) + 3 for cell in row) <= MAX_WIDTH, row


def test_citation_file_names_the_version_and_the_paper():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert found["version"] == gnnak.__version__
    assert "From Stars to Subgraphs" in found["preferred-citation"]["title"]


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "<math" in (tmp_path / "api/uplift.html").read_text("utf-8")
    tutorial = (tmp_path / "tutorials/wl-lab.html").read_text("utf-8")
    assert "<img" in tutorial
