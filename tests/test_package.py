"""The public names of the package `gnnak`, and the glossary."""

import re
from pathlib import Path

import gnnak
import gnnak.typing

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"


def test_dir_shows_the_public_names_and_the_packages():
    shown = dir(gnnak)
    packages = {"datasets", "errors", "graphs", "loading", "models", "nn", "report"}
    packages |= {"sampling", "subgraphs", "testing", "training", "wl"}
    assert {"uplift", "GNNAK"} | packages <= set(shown)
    assert shown == sorted(set(shown))
    assert all(hasattr(gnnak, name) for name in shown)


def test_docs_and_docstring_define_the_same_terms():
    page, docstring = GLOSSARY.read_text("utf-8"), gnnak.typing.__doc__
    terms = re.findall(r"\*([\w ]+)\*", docstring)
    assert len(terms) == 33
    assert [t.lower() for t in terms] == [
        t.lower().rstrip(".") for t in re.findall(r"\*\*([^*]+)\*\*", page)
    ]
    letters = re.findall(r"`(\w)` (\w[\w ]+)", docstring)
    rows = re.findall(r"^\| `(\w)` \| ([\w ]+)", page, re.MULTILINE)
    assert [(a, b.split()[0]) for a, b in letters] == [
        (a, b.split()[0]) for a, b in rows
    ]
