"""The functions of `gnnak.fast.kernels.plain`, implemented as Triton kernels for a GPU.

The docstrings in `plain` explain the functions. Messages stay in registers. Results are
bitwise reproducible: one program sums all rows of a group, without atomics, and partial
sums over blocks of rows are added in a fixed order by `tiles.add_up`.

Names that the kernels share:

- A program computes a tile of `BLOCK` rows and `C` columns, with the indices `row` and
  `column`. The masks `there`, `inside` and `shown` are true for rows, columns and
  elements that exist in the tensor.
- `stride` is the row stride of the tensor argument before it; `width` is a number of
  columns; `m`, `rows` or `size` is a number of rows or groups.
- `out` or `into` receives the results, and `partial` receives partial sums over rows.
- `ptr` and `order` are the fields of `Groups`: rows grouped by key, in CSR form.
- `back` is an incoming gradient; `m2` is a sum of squared deviations from a mean.
- `last` is the number of rows that are not padding.
- A trailing underscore marks a loaded value: `scale_` is loaded from pointer `scale`.
- A name in capitals is a constant, with one compiled version of the kernel per value.
"""

# ruff: noqa: F401 (this package is the namespace of the kernels)
from gnnak.fast.kernels.gpu.gather import (
    add_lifted,
    gate_pool,
    gate_pool_backward,
    gated_sums,
    gated_sums_backward,
    lift,
    sum_by,
    table_sum,
)
from gnnak.fast.kernels.gpu.hop_tables import hop_tables, hop_tables_backward
from gnnak.fast.kernels.gpu.message import (
    gcn_scale,
    gcn_sum,
    messages,
    messages_backward,
    pair_sum,
    pna_pool,
    pna_pool_backward,
)
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
from gnnak.fast.kernels.gpu.product import norm_linear, norm_linear_backward
