"""Write the picture of the packages into CONTRIBUTING.md, from their imports.

Run `python -m docs.tools.packages`. Imports are read from the source, also those inside
functions and for type checkers.
"""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- packages -->\n", "<!-- end -->\n"
"""What stands before and after the picture."""


@cache
def modules() -> dict[str, ast.Module]:
    """Return the source of every module of gnnak, by name."""
    found = {}
    for path in sorted((ROOT / "gnnak").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


@cache
def imports(name: str) -> set[str]:
    """Return the modules of gnnak, except `gnnak` itself, that a module imports."""
    found = set()
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            whole = inside <= modules().keys()
            found |= inside if whole else {node.module} | (inside & modules().keys())
    return {each for each in found if each in modules() and each != "gnnak"}


def package(name: str) -> str:
    """Return the package, or the module at the top, that a module belongs to.

    >>> package("gnnak.nn.base.convs")
    'nn'
    """
    return name.split(".")[1]


def package_imports() -> dict[str, set[str]]:
    """Return for each package the other packages that it imports."""
    names = [name for name in modules() if name not in ("gnnak", "gnnak.testing")]
    found: dict[str, set[str]] = {package(name): set() for name in names}
    for name in names:
        found[package(name)] |= {package(each) for each in imports(name)}
    return {name: used - {name} for name, used in found.items()}


def picture(used: dict[str, set[str]]) -> str:
    """Draw packages in rows: a package imports only from rows above its own.

    A name in brackets is imported; it is left out if another name in the brackets
    imports it, too.

    >>> print(picture({"a": set(), "b": {"a"}, "c": {"a", "b"}}))
    a
    b (a)
    c (b)
    """
    row: dict[str, int] = {}
    reached: dict[str, set[str]] = {}
    text: dict[int, list[str]] = {}
    for name in TopologicalSorter(used).static_order():
        above = used[name]
        indirect = set().union(*(reached[each] for each in above))
        reached[name] = above | indirect
        row[name] = 1 + max((row[each] for each in above), default=-1)
        shown = ", ".join(sorted(above - indirect))
        text.setdefault(row[name], []).append(f"{name} ({shown})" if shown else name)
    return "\n".join("   ".join(sorted(text[number])) for number in sorted(text))


def with_picture(page: str) -> str:
    """Return the page with the picture between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    drawn = f"```text\n{picture(package_imports())}\n```\n"
    return f"{before}{BEGIN}{drawn}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_picture(PAGE.read_text("utf-8")), "utf-8")
