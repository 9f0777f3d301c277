"""Find the arguments and the widths of a GNN that is not part of gnnak.

`try_out` and `own_widths` run the GNN on a small graph. `try_out` returns a `Calling`,
which calls the GNN with the arguments that the GNN reads.
"""

from gnnak.nn.calling.call import Calling, own_widths, try_out

__all__ = ["Calling", "own_widths", "try_out"]
