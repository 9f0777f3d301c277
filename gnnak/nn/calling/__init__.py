"""Find the arguments and the widths of a GNN that is not part of gnnak.

`try_out` runs the GNN on a small graph and returns a `Calling`, which calls the GNN. In
a `Call`, the user says what the arguments of a module hold. `Inputs` holds the
arguments of one call.
"""

from gnnak.nn.calling.call import Call, Calling, Inputs, lift_inputs
from gnnak.nn.calling.trial import own_widths, try_out

__all__ = ["Call", "Calling", "Inputs", "lift_inputs", "own_widths", "try_out"]
