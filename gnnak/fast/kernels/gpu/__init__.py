"""The kernels of `plain` in Triton: sorted sums without atomics, few passes."""

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
