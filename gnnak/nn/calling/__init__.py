"""Find the arguments and the widths of a GNN that is not part of gnnak.

`try_out` runs the GNN on a small graph and returns a `Calling`, which knows how to call
the GNN. A `Call` is the user's description of the arguments of a module. `Inputs` holds
the arguments of one call.
"""

from gnnak.nn.calling.call import Call, Calling, Inputs, lift_inputs
from gnnak.nn.calling.trial import own_widths, try_out

__all__ = ["Call", "Calling", "Inputs", "lift_inputs", "own_widths", "try_out"]
