"""Options of a network, and of its training on one pair of BREC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from gnnak.errors import OptionError
from gnnak.models.factory import parse_name
from gnnak.models.options import (
    FamilyOptions,
    ModelOptions,
    SubgraphKind,
    SubgraphOptions,
)
from gnnak.typing import (
    PairEncoding,
    Reduce,
    check_choice,
    check_count,
    check_positive,
)


@dataclass(frozen=True)
class TrialOptions:
    """Options of the network and of its training on one pair; the defaults are BREC's.

    The defaults of the network are those of GNN-AK in the BREC paper. `trial_options`
    returns the options of other networks.
    """

    model: str = "gin-ak+"
    """Name of the network, as in `build_model`."""
    num_hops: int = 6
    """Radius of the egonets; ignored for other kinds of subgraphs."""
    num_layers: int = 4
    """Number of layers."""
    base_layers: int = 2
    """Number of layers of the base GNN in each layer."""
    channels: int = 32
    """Width of the node states."""
    lr: float = 1e-4
    """Learning rate of Adam."""
    epochs: int = 20
    """Largest number of epochs."""
    relabellings: int = 32
    """Number of relabellings of each graph, q. The threshold of BREC's test is that for
    q = 32."""
    subgraphs: SubgraphKind = "egonets"
    """Kind of the rooted subgraphs; see `SubgraphOptions.kind`. Random walks are not
    allowed: the test needs embeddings that do not change from call to call."""
    pairs: tuple[PairEncoding, ...] | None = None
    """Encodings of (root, node) in the input of subgraph GNNs other than GNN-AK; None =
    those that the model was published with."""
    max_distance: int = 5
    """For the encoding "distance": larger distances are encoded like this one."""
    reduce: Reduce | None = None
    """How subgraph GNNs other than GNN-AK pool states; None = as published."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "base_layers", "channels", "epochs"):
            check_count(name, getattr(self, name), least=1)
        check_count("num_hops", self.num_hops)
        check_count("relabellings", self.relabellings, least=2)
        check_positive("lr", self.lr)
        kinds = [kind for kind in get_args(SubgraphKind) if kind != "walks"]
        check_choice("subgraphs", self.subgraphs, kinds)
        self.model_options()

    def model_options(self) -> ModelOptions:
        """Return the options of the network, for `build_model`."""
        family = FamilyOptions(self.pairs, self.max_distance, reduce=self.reduce)
        return ModelOptions(
            num_layers=self.num_layers,
            base_layers=self.base_layers,
            channels=self.channels,
            subgraphs=SubgraphOptions(self.subgraphs, self.num_hops),
            dropout=0.0,
            family=family,
        )


PUBLISHED: dict[str, dict[str, Any]] = {
    "nested": {"num_hops": 1, "num_layers": 6, "channels": 16, "pairs": ()},
    "ds": {"num_layers": 10},
    "dss": {"num_layers": 9},
    "sun": {"num_layers": 9},
    "sswl": {
        "subgraphs": "whole",
        "num_layers": 8,
        "channels": 64,
        "max_distance": 8,
        "lr": 1e-5,
    },
}
"""Options of subgraph GNNs other than GNN-AK in the BREC paper, as far as they differ
from the defaults of `TrialOptions`. Each layer of these GNNs has one conv."""
PUBLISHED["sswl+"] = PUBLISHED["sswl"]


def trial_options(model: str = "gin-ak+", **given: Any) -> TrialOptions:
    """Return the options of a network as published for BREC, with some changed.

    PPGN-AK has no published options. Its 2-hop egonets and two layers are our choice,
    because the memory of a PPGN grows with the square of the size of an egonet.

    Args:
        model: Name of the network, as in `build_model`.
        given: New values of options; None = as published.

    Raises:
        OptionError: If options of rooted subgraphs are given for a network that has
            none.

    >>> trial_options("sswl+-gin").num_layers, trial_options("gin-ak+").num_layers
    (8, 4)
    >>> trial_options("sswl+-gin", num_layers=2, lr=None).num_layers
    2
    """
    form = parse_name(model)
    options: dict[str, Any] = {}
    if form.member is not None:
        options = {"subgraphs": form.kind, "base_layers": 1}
        options |= PUBLISHED.get(form.member, {})
    elif form.uplifted and form.has_node_pairs:
        options = {"num_hops": 2, "num_layers": 2}
    changed = {name: value for name, value in given.items() if value is not None}
    for name in ("subgraphs", "num_hops"):
        if name in changed and form.member is None and not form.uplifted:
            raise OptionError(
                f"{model} has no rooted subgraphs, so {name} has no effect; leave it "
                f"out, or choose {model}-ak+."
            )
    return TrialOptions(model, **options | changed)
