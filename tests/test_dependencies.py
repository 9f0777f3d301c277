"""Check the dependencies: bounds in pyproject.toml, the lock file, the workflow."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gnnak.optional import EXTRAS, missing_package

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(line) for line in PROJECT["dependencies"]]
LOCK = ROOT / "requirements-lock.txt"
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"


def locked():
    """Return the pinned versions of the lock file, by canonical name."""
    pins = re.findall(r"^([\w.-]+)==([^ ;\\]+)", LOCK.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda found: found.name)
def test_every_dependency_has_a_lower_and_an_upper_bound(requirement):
    operators = {bound.operator for bound in requirement.specifier}
    assert {">=", "<"} <= operators


@pytest.mark.parametrize("name", ["lightning", "pytorch-lightning"])
@pytest.mark.parametrize("version", ["2.6.2", "2.6.3"])
def test_compromised_releases_are_excluded(name, version):
    (requirement,) = (found for found in DIRECT if found.name == name)
    assert version not in requirement.specifier
    assert "2.6.1" in requirement.specifier
    assert locked()[name] != version


def test_lock_file_satisfies_the_bounds_of_all_dependencies():
    extras = PROJECT["optional-dependencies"].values()
    wanted = DIRECT + [Requirement(line) for extra in extras for line in extra]
    for requirement in wanted:
        assert locked()[canonicalize_name(requirement.name)] in requirement.specifier


def test_lock_file_pins_every_package_by_hash():
    blocks = re.split(r"^(?=[\w])", LOCK.read_text(), flags=re.MULTILINE)
    packages = [block for block in blocks if re.match(r"\w", block)]
    assert len(packages) >= len(DIRECT)
    for block in packages:
        assert re.match(r"[\w.-]+==\S+", block)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block)


def test_workflow_tests_every_supported_python_and_pins_actions():
    text = WORKFLOW.read_text()
    matrix = yaml.safe_load(text)["jobs"]["test"]["strategy"]["matrix"]
    known = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "3." in line]
    assert matrix["python"] == known
    assert {entry["dependencies"] for entry in matrix["include"]} == {"oldest"}
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)


def test_optional_packages_of_error_messages_are_in_the_extras_they_name():
    extras = PROJECT["optional-dependencies"]
    found = {
        Requirement(line).name: name
        for name in extras.keys() - {"docs", "dev"}
        for line in extras[name]
    }
    assert found == EXTRAS
    told = str(missing_package("this needs", "scikit-learn"))
    assert "pip install scikit-learn, or install gnnak with its extra sklearn." in told


def test_readme_names_all_extras_and_the_docs_no_others():
    extras = set(PROJECT["optional-dependencies"])
    readme = (ROOT / "README.md").read_text()
    (listed,) = re.findall(r"The extra `chem`.*?\.\s", readme, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", listed)) == extras
    pages = [readme, *(path.read_text() for path in (ROOT / "docs").rglob("*.md"))]
    named = [
        name
        for page in pages
        for names in re.findall(r"'\.\[([\w,]+)\]'|extra `(\w+)`", page)
        for name in ",".join(names).strip(",").split(",")
    ]
    assert "chem" in named
    assert set(named) <= extras
