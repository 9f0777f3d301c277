"""Leave out of the tests whatever needs a package that is not there."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent
collect_ignore = [] if (ROOT / "gnnak/fast").is_dir() else ["tests/fast"]
if importlib.util.find_spec("triton") is None:
    collect_ignore += [
        str(path.relative_to(ROOT))
        for folder in ("gnnak/fast", "tests/fast")
        for path in (ROOT / folder).rglob("*.py")
        if "\nimport triton" in (text := path.read_text()) or "\nfrom triton" in text
    ]
