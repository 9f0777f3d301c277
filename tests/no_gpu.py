"""A GPU that is not there, for compilers."""

import torch
from triton.backends.compiler import GPUTarget


class NoGpu:
    """As much of a driver as a compiler asks for.

    Args:
        generation: Of the GPU that there is not.
    """

    def __init__(self, generation):
        self.generation = generation

    def get_current_target(self):
        return GPUTarget("cuda", self.generation, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")
