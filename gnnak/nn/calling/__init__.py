"""Find the arguments and the widths of a GNN that is not part of gnnak."""

from gnnak.nn.calling.call import Call, Calling, Inputs, lift_inputs
from gnnak.nn.calling.trial import own_widths, try_out

__all__ = ["Call", "Calling", "Inputs", "lift_inputs", "own_widths", "try_out"]
