"""The kernels of `plain` in Triton: sorted sums without atomics, few passes."""

from gnnak.nn.kernels.fast.gather import lift, sum_by, table_sum, weighted_sum
from gnnak.nn.kernels.fast.gcn import gcn_scale, gcn_sum
from gnnak.nn.kernels.fast.message import messages
from gnnak.nn.kernels.fast.message_backward import messages_backward
from gnnak.nn.kernels.fast.norm import norm_act
from gnnak.nn.kernels.fast.norm_backward import norm_act_backward
from gnnak.nn.kernels.fast.normed import norm_act_at
from gnnak.nn.kernels.fast.pna import pair_sum, pna_pool, pna_pool_backward
from gnnak.nn.kernels.fast.pool import gate_pool
from gnnak.nn.kernels.fast.pool_backward import gate_pool_backward
from gnnak.nn.kernels.fast.product import norm_linear
from gnnak.nn.kernels.fast.product_backward import norm_linear_backward
from gnnak.nn.kernels.fast.statistics import moments_of, norm_constants

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
