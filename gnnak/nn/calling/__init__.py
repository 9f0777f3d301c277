"""Find the arguments and the widths of a GNN that is not part of gnnak.

`try_out` and `own_widths` run the GNN on a small graph. `try_out` returns a `Calling`,
which calls the GNN with the arguments that the GNN reads. With a `Call`, the user says
how a module is called, and no trial run is made. `Inputs` holds the arguments of one
call.
"""

from gnnak.nn.calling.call import Call, Calling, Inputs, lift_inputs
from gnnak.nn.calling.trial import own_widths, try_out

__all__ = ["Call", "Calling", "Inputs", "lift_inputs", "own_widths", "try_out"]
