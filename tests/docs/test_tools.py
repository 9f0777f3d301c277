"""The tools that build the site: notebooks to pages, equations, doctests."""

import base64

import pytest

pytest.importorskip("mkdocs", reason="needs the extra docs")
pytest.importorskip("griffe", reason="needs the extra docs")

from docs.tools.doctests import fenced
from docs.tools.pages import notebook_page, on_page_content, on_page_markdown


def test_notebook_page_has_text_code_outputs_and_images():
    image = base64.b64encode(b"picture").decode()
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["2\n", "3\n"]},
        {"output_type": "display_data", "data": {"image/png": image}},
        {"output_type": "execute_result", "data": {"text/plain": ["'```'"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": outputs},
    ]
    text, images = notebook_page({"cells": cells}, "tutorials/x")
    assert images == {"tutorials/x-1.png": b"picture"}
    assert text.split("\n\n") == [
        "# Title\nText.",
        "```python\n1 + 1\n```",
        "````text\n2\n3\n````",
        "![output](x-1.png)",
        "````text\n'```'\n````",
        "[Download this page as a notebook](x.ipynb){download}\n",
    ]


def test_equations_become_mathml():
    inline = on_page_content('<p><span class="arithmatex">\\(a &lt; b\\)</span></p>')
    assert inline.startswith("<p><math")
    assert "arithmatex" not in inline
    assert "&#x0003C;" in inline
    block = on_page_content('<div class="arithmatex">\n\\[h_v\\]\n</div>')
    assert 'display="block"' in block


def test_doctests_are_fenced_up_to_the_next_empty_line():
    text = "Add.\n\n>>> 1 + 1\n2\n>>> 3\n3\n\nMore."
    assert fenced(text) == "Add.\n\n```pycon\n>>> 1 + 1\n2\n>>> 3\n3\n```\n\nMore."
    assert fenced("No code.") == "No code."


def test_links_of_the_repository_become_links_of_the_site():
    class Page:
        class file:  # noqa: N801
            src_uri = "reliability.md"

    told = "[a](../SECURITY.md#x), [b](../LICENSE), [c](tutorials/wl-lab.ipynb)"
    changed = on_page_markdown(told, Page())
    assert changed == "[a](security.md#x), b, [c](tutorials/wl-lab.md)"
    download = "[notebook](wl-lab.ipynb){download}"
    assert on_page_markdown(download, Page()) == download
