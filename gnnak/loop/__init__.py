"""Training steps: `TrainingStep` for your own loop, and the step of `gnnak train`."""

from gnnak.loop.step import backward_in_calling_thread

__all__ = ["backward_in_calling_thread"]
