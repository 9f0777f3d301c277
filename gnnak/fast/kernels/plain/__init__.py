"""Reference kernels in plain PyTorch: simple, slow, and correct on every device.

The Triton kernels in `gnnak.fast.kernels.gpu` have the same names, arguments and, up to
rounding, results; the tests compare the two. Several functions share these arguments:

- `groups` lists the rows of each group in CSR form (compressed sparse rows).
- `k` holds the constants of a batch norm, `scale` and `shift` among them.
- `real`, a scalar tensor, is the number of real rows; if None, no row is padding.
- `rows`, [m], is the table row of each node copy: a table has one row per hop.
- `grad` is the gradient of what the forward function returns.
"""

# ruff: noqa: F403 (this package is the namespace of the kernels)
from gnnak.fast.kernels.plain.gather import *
from gnnak.fast.kernels.plain.messages import *
from gnnak.fast.kernels.plain.node_pairs import *
from gnnak.fast.kernels.plain.norm import *
