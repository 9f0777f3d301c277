"""Reference kernels in plain PyTorch: simple, slow, and correct on every device.

Every function of `gnnak.fast.kernels.gpu` has a counterpart here with the same name,
arguments and, up to rounding, results; the tests compare the two. The docstrings of
this package explain the arguments.

Words and arguments that all kernels share:

- A *node copy* is a node as seen in one rooted subgraph; an *edge copy* is an edge as
  seen in one rooted subgraph.
- `groups` lists the rows of each group in CSR form (compressed sparse rows: row
  pointers and a permutation).
- `k` holds the constants of a batch norm; *normed* rows are the output of that norm.
- `real` is the number of rows that are not padding; padding rows come last.
"""

from gnnak.fast.kernels.plain.gather import (
    gated_sums,
    gated_sums_backward,
    hop_tables,
    hop_tables_backward,
    lift,
    sum_by,
    table_sum,
    weighted_sum,
)
from gnnak.fast.kernels.plain.messages import (
    gcn_scale,
    gcn_sum,
    messages,
    messages_backward,
    pair_sum,
    pna_pool,
    pna_pool_backward,
)
from gnnak.fast.kernels.plain.node_pairs import (
    pair_product,
    pair_product_backward,
    pool_pairs,
    pool_pairs_backward,
    pool_product,
    pool_product_backward,
)
from gnnak.fast.kernels.plain.norm import (
    gate_pool,
    gate_pool_backward,
    moments_of,
    norm_act,
    norm_act_at,
    norm_act_backward,
    norm_constants,
    norm_linear,
    norm_linear_backward,
    remember,
    statistics,
)

__all__ = [
    "gate_pool",
    "gate_pool_backward",
    "gated_sums",
    "gated_sums_backward",
    "gcn_scale",
    "gcn_sum",
    "hop_tables",
    "hop_tables_backward",
    "lift",
    "messages",
    "messages_backward",
    "moments_of",
    "norm_act",
    "norm_act_at",
    "norm_act_backward",
    "norm_constants",
    "norm_linear",
    "norm_linear_backward",
    "pair_product",
    "pair_product_backward",
    "pair_sum",
    "pna_pool",
    "pna_pool_backward",
    "pool_pairs",
    "pool_pairs_backward",
    "pool_product",
    "pool_product_backward",
    "remember",
    "statistics",
    "sum_by",
    "table_sum",
    "weighted_sum",
]
