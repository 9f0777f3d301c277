"""Hooks of MkDocs: pages from notebooks and from the files of the project's root.

MkDocs calls the functions whose names begin with `on_`; `mkdocs.yml` names this file.
"""

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parents[2]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Files of the root that are pages of the site, under names in lower case."""
REPOSITORY_ONLY = re.compile(r"\[([^\]]+)\]\(\.\./[^)#]+(?:#[^)]*)?\)")
"""A link to another file of the root, which the site does not have."""
NOTEBOOK_LINK = re.compile(r"(\]\([\w./-]*)\.ipynb([)#])(?!\{download)")
EQUATION = re.compile(
    r'<span class="arithmatex">\\\((?P<inline>.*?)\\\)</span>'
    r'|<div class="arithmatex">\s*\\\[(?P<block>.*?)\\\]\s*</div>',
    re.DOTALL,
)
"""An equation as the Markdown extension arithmatex marks it."""
OUTPUT_FENCE = "````"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook and for each file in `ROOT_PAGES`."""
    light, dark = (
        HtmlFormatter(style=style).get_style_defs(".highlight")
        for style in ("default", "github-dark")
    )
    colours = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    files.append(File.generated(config, "assets/pygments.css", content=colours))
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, name.lower(), content=text))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        stem = notebook.src_uri.removesuffix(".ipynb")
        text, images = notebook_page(json.loads(notebook.content_string), stem)
        files.append(File.generated(config, f"{stem}.md", content=text))
        for uri, image in images.items():
            files.append(File.generated(config, uri, content=image))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links that work in the repository to links that work on the site."""
    for name in ROOT_PAGES:
        markdown = markdown.replace(f"](../{name}", f"]({name.lower()}")
    if page.file.src_uri.upper() in {name.upper() for name in ROOT_PAGES}:
        markdown = markdown.replace("](docs/", "](")
    return REPOSITORY_ONLY.sub(r"\1", NOTEBOOK_LINK.sub(r"\1.md\2", markdown))


def on_page_content(content: str, **_: Any) -> str:
    """Convert equations to MathML, which browsers show without JavaScript."""

    def as_mathml(found: re.Match[str]) -> str:
        latex = html.unescape(found["inline"] or found["block"])
        return convert(latex, display="block" if found["block"] else "inline")

    return EQUATION.sub(as_mathml, content)


def notebook_page(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Convert an executed notebook to Markdown.

    Args:
        notebook: Content of the `.ipynb` file.
        stem: Path of the page without suffix; images are named after it.

    Returns:
        The text of the page, and its images by path.
    """
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            image = output.get("data", {}).get("image/png")
            if image is not None:
                uri = f"{stem}-{len(images) + 1}.png"
                images[uri] = base64.b64decode(image)
                parts.append(f"![output]({Path(uri).name})")
            else:
                parts.append(f"{OUTPUT_FENCE}text\n{output_text(output)}{OUTPUT_FENCE}")
    name = Path(stem).name
    parts.append(f"[Download this page as a notebook]({name}.ipynb){{download}}")
    return "\n\n".join(parts) + "\n", images


def output_text(output: dict[str, Any]) -> str:
    """Return the text that a notebook's output shows, with a line break at the end."""
    lines = output["text"] if "text" in output else output["data"]["text/plain"]
    return "".join(lines).rstrip("\n") + "\n"
