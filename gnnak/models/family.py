"""Build networks with a member of the family of subgraph GNNs."""

from dataclasses import replace

from torch import nn

from gnnak.models.bases import Base, Degrees, base_gnn
from gnnak.models.members import MEMBERS, Member, Parts
from gnnak.models.network import Network
from gnnak.models.options import ModelOptions
from gnnak.nn.conv import Conv
from gnnak.nn.features import Features, make_encoder
from gnnak.nn.pairs import PairEncoder
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import with_encodings
from gnnak.subgraphs.extractors import Extractor


def family_network(
    name: str,
    base: Base,
    node_features: Features,
    edge_features: Features | None,
    out_channels: int,
    options: ModelOptions,
    node_task: bool,
    degrees: Degrees,
) -> Network:
    """Build a network with a member of the family.

    Args:
        name: The name of the member, a key of `MEMBERS`.
        base: The base GNN.
        node_features: This and all other arguments are those of `build_model`.
        edge_features: See `build_model`.
        out_channels: See `build_model`.
        options: See `build_model`.
        node_task: See `build_model`.
        degrees: See `build_model`.
    """
    member, family, width = MEMBERS[name], options.family, options.channels

    def conv() -> Conv:
        encoder = None
        if base.reads_edges:
            encoder = make_encoder(edge_features, width, rows="edges")
        gnn = base_gnn(base, width, options, degrees)
        return Conv(gnn, width, encoder, reads_edges=base.reads_edges)

    pairs = member.pairs if family.pairs is None else family.pairs
    start = PairEncoder(pairs, width, family.max_distance, family.num_steps)
    extractor = extractor_of(member, options)
    gnn = member.build(Parts(options, conv, start, extractor))
    head = nn.Sequential(
        nn.Dropout(options.dropout),
        nn.Linear(gnn.out_channels, 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, out_channels),
    )
    reduce = None if node_task else family.reduce or member.reduce
    encoder = make_encoder(node_features, width)
    extractor = with_encodings(extractor, gnn.encodings)
    return Network(encoder, [gnn], head, reduce, extractor)


def extractor_of(member: Member, options: ModelOptions) -> Extractor:
    """Return the extractor of a member: that of the options, or its published one."""
    extractor = options.extractor_for(member.kind)
    if member.num_hops is not None and isinstance(extractor, EgoNets):
        return replace(extractor, num_hops=member.num_hops)
    return extractor
