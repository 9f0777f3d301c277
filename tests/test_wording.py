"""The wording of messages: articles and plurals come from one place."""

import ast
import re
from pathlib import Path

import gnnak
from gnnak.errors import counted, kind_of, with_article

ROOT = Path(gnnak.__file__).parent
BARE = re.compile(r"\b[Aa] \{[^}]*(type\(|kind|__name__)")
"""The article a before the name of a type, which may begin with a vowel."""


def texts() -> list[str]:
    """Return all f-strings of the package, as they are written."""
    trees = [ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))]
    return [
        ast.unparse(node)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
    ]


def test_names_of_types_get_their_article_from_kind_of():
    assert [text for text in texts() if BARE.search(text)] == []


def test_counted_has_the_plural_for_all_numbers_but_one():
    found = [counted(number, "class") for number in (0, 1, 2)]
    assert found == ["0 classes", "1 class", "2 classes"]
    assert [counted(number, "row") for number in (1, 2)] == ["1 row", "2 rows"]


def test_articles_follow_the_first_letter():
    assert [with_article(word) for word in ("Array", "Data")] == ["an Array", "a Data"]
    assert [kind_of(value) for value in (1, 1.0, None)] == ["an int", "a float", "None"]
