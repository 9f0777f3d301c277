"""Find out how to call a GNN that is not part of gnnak: its arguments and its widths.

`try_out` and `own_widths` run the GNN on a small graph. `try_out` returns the result as
a `Calling`, which calls the GNN with the arguments that it reads.
"""

from gnnak.nn.calling.call import Calling, own_widths, try_out

__all__ = ["Calling", "own_widths", "try_out"]
