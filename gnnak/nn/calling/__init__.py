"""How to call a GNN that gnnak did not write: its arguments and its widths.

`try_out` and `own_widths` run the GNN on a small graph; `Calling` records the result
and then calls the GNN with the arguments it reads.
"""

from gnnak.nn.calling.call import Calling, own_widths, try_out

__all__ = ["Calling", "own_widths", "try_out"]
