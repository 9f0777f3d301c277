"""The functions of `gnnak.fast.kernels.plain`, implemented as Triton kernels for a GPU.

The docstrings in `plain` explain the functions and their arguments. The kernels are
faster than separate PyTorch operations for two reasons:

- Fusion: intermediate values such as messages and the outputs of norms stay in
  registers. No tensor with one row per node copy or edge copy is written for them.
- Segment sums without atomics: rows are grouped in CSR form (compressed sparse rows)
  beforehand; one program sums all rows of a group and writes the result once.

Results are bitwise reproducible: sums over all rows (column statistics, weight
gradients) are computed as partial sums per block of rows, which `tiles.add_up` then
adds in a fixed order.

Names that the kernels share:

- A program computes a tile of `BLOCK` rows and `C` columns, with the indices `row` and
  `column`. The masks `there`, `inside` and `shown` are true for rows, columns and
  elements that exist in the tensor.
- `stride` is the row stride of the tensor that is the argument before `stride`; `width`
  is a number of columns; `m`, `rows` or `size` is a number of rows or groups.
- `out` or `into` receives the results, and `partial` receives partial sums over rows.
- `ptr` and `order` are the fields of `Groups`: rows grouped by key, in CSR form.
- `back` is an incoming gradient; `m2` is a sum of squared deviations from a mean.
- `last` is the number of rows that are not padding.
- A trailing underscore marks a loaded value: `scale_` is loaded from pointer `scale`.
- A name in capitals is a compile-time constant: Triton compiles one version of the
  kernel per value.
"""

# ruff: noqa: F401 (this package is the namespace of the kernels)
from gnnak.fast.kernels.gpu.gather import (
    gated_sums,
    gated_sums_backward,
    lift,
    sum_by,
    table_sum,
)
from gnnak.fast.kernels.gpu.gcn_pna import (
    gcn_scale,
    gcn_sum,
    pair_sum,
    pna_pool,
    pna_pool_backward,
)
from gnnak.fast.kernels.gpu.hop_tables import hop_tables, hop_tables_backward
from gnnak.fast.kernels.gpu.message import messages, messages_backward
from gnnak.fast.kernels.gpu.node_pairs import (
    pair_product,
    pair_product_backward,
    pool_pairs,
    pool_pairs_backward,
    pool_product,
    pool_product_backward,
)
from gnnak.fast.kernels.gpu.norm import (
    moments_of,
    norm_act,
    norm_act_at,
    norm_act_backward,
    norm_constants,
)
from gnnak.fast.kernels.gpu.pool import gate_pool, gate_pool_backward
from gnnak.fast.kernels.gpu.product import norm_linear, norm_linear_backward
