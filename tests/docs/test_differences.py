"""docs/differences.md names every option whose default is not the paper's."""

import re
from dataclasses import fields

import pytest

from gnnak import LayerOptions, SubgraphDrop
from gnnak.models import ModelOptions
from tests.docs.blocks import ROOT

PAPER: dict[str, tuple[object, ...]] = {
    "hop_channels": (),  # as wide as the node states; no number is right for all
    "pairs": (("distance",),),
    "encodings": (None,),
    "reduce": ("sum", "mean"),
    "fuse": ("sum",),  # "concat" adds a Linear to the paper's concatenation
    "dropout": (0.0,),
    "mlp_layers": (0,),
    "gate_centroid": (False,),
    "plain_conv": (False,),
    "residual": ("sum",),
    "strategy": ("random", "farthest", "min-set-cover"),
    "min_coverage": (3,),
    "ties": (),  # the paper does not say which of several farthest roots is sampled
    "share": (None,),
}
"""The values of options that agree with the paper's equations and sampling rules."""
NOT_OF_THE_PAPER = {
    "name",
    "num_layers",
    "base_layers",
    "channels",
    "subgraphs",
    "family",
    "drop",  # its options are checked one by one
}
"""Options that choose a network, its size or its subgraphs: any value may be right."""
DEFAULTS = [
    (record, field.name)
    for record in (LayerOptions(), ModelOptions(), SubgraphDrop())
    for field in fields(record)
]


def rows_that_name(option: str) -> list[str]:
    """Return the table rows of docs/differences.md that name an option as code."""
    text = (ROOT / "docs" / "differences.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if re.search(rf"`{option}\b", row)]


def test_every_option_is_compared_with_the_paper_or_no_matter_of_it():
    known = {name for _, name in DEFAULTS}
    assert not PAPER.keys() & NOT_OF_THE_PAPER
    assert PAPER.keys() | NOT_OF_THE_PAPER == known


@pytest.mark.parametrize(
    ("record", "option"),
    [
        pytest.param(record, option, id=f"{type(record).__name__}.{option}")
        for record, option in DEFAULTS
        if getattr(record, option) not in PAPER.get(option, (getattr(record, option),))
    ],
)
def test_an_option_whose_default_is_not_the_papers_is_in_the_list(record, option):
    assert rows_that_name(option), (
        f"{type(record).__name__}.{option} is {getattr(record, option)!r} by default, "
        "the paper's is another; add a row to docs/differences.md."
    )
