"""The kernels of `gnnak.fast.kernels.plain` as Triton kernels for a GPU.

They are faster than separate PyTorch operations for three reasons:

- Fusion: values such as normed rows, messages and gated rows stay in registers; no
  tensor with one row per copy or edge copy is written for them.
- Segment sums without atomics: rows are grouped in CSR form beforehand, one program
  sums all rows of a group, and it writes the result once.
- Sums over all rows (column statistics, weight gradients) are computed in two steps,
  partial sums per block of rows and then their total (`sums.add_up`), in a fixed order.
  So results are the same bits in every run.

Names that the kernels share: a program computes a tile of `BLOCK` rows and `C` columns;
`row` and `column` are its indices; `there`, `inside` and `shown` are the masks of
existing rows, columns and elements; `back` is an incoming gradient; `m2` is a sum of
squared deviations from a mean; a name with an underscore, as `scale_`, is the loaded
value of the pointer `scale`. A flag in capitals is a compile-time constant: Triton
compiles one version of the kernel for each of its values.
"""

from gnnak.fast.kernels.gpu.gather import lift, sum_by, table_sum, weighted_sum
from gnnak.fast.kernels.gpu.gcn import gcn_scale, gcn_sum
from gnnak.fast.kernels.gpu.message import messages
from gnnak.fast.kernels.gpu.message_backward import messages_backward
from gnnak.fast.kernels.gpu.norm import norm_act
from gnnak.fast.kernels.gpu.norm_backward import norm_act_backward
from gnnak.fast.kernels.gpu.normed import norm_act_at
from gnnak.fast.kernels.gpu.pna import pair_sum, pna_pool, pna_pool_backward
from gnnak.fast.kernels.gpu.pool import gate_pool
from gnnak.fast.kernels.gpu.pool_backward import gate_pool_backward
from gnnak.fast.kernels.gpu.product import norm_linear
from gnnak.fast.kernels.gpu.product_backward import norm_linear_backward
from gnnak.fast.kernels.gpu.statistics import moments_of, norm_constants

__all__ = [
    "gate_pool",
    "gate_pool_backward",
    "gcn_scale",
    "gcn_sum",
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
    "pair_sum",
    "pna_pool",
    "pna_pool_backward",
    "sum_by",
    "table_sum",
    "weighted_sum",
]
