"""A GPU that is not there, for compilers."""

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction


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


def print_sizes_of_kernels():
    """From here on a launch prints the bytes of the kernel's code, made for no GPU."""

    def compile_only(kernel, grid):
        def launch(*arguments, **options):
            code = kernel.warmup(*arguments, grid=grid, **options)
            print(len(code.asm["cubin"]))  # noqa: T201

        return launch

    driver.set_active(NoGpu(90))
    JITFunction.__getitem__ = compile_only
