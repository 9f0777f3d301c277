"""The key of the compiled version of a Triton kernel."""

import os
from contextlib import contextmanager

import pytest
import torch

triton = pytest.importorskip("triton")

from gnnak.fast.kernels.gpu.tiles import CachedKernel, _launch  # noqa: E402


def _kernel(values, ptr, size, width, flag):
    """Do nothing."""


STREAM = 77
STREAMS = {-1: STREAM}
VALUES = torch.zeros(64)
FIRST = (VALUES, VALUES.long(), 5, 8, True)
SAME = {
    "another number of groups": (VALUES, VALUES.long(), 16, 8, True),
    "other tensors": (torch.ones(8), torch.ones(8).long(), 1, 8, True),
}
OTHER = {
    "another dtype": (VALUES.double(), VALUES.long(), 5, 8, True),
    "another alignment": (VALUES[1:], VALUES.long(), 5, 8, True),
    "another width": (VALUES, VALUES.long(), 5, 16, True),
    "a number of groups beyond 32 bits": (VALUES, VALUES.long(), 2**31, 8, True),
    "another constant": (VALUES, VALUES.long(), 5, 8, False),
}


class Version:
    """A compiled version that records grid and arguments of launches, without hooks
    and with hooks."""

    function, packed_metadata = "function", (1, 0)

    def __init__(self, launches, hooked):
        self.launches, self.hooked = launches, hooked

    def __getitem__(self, grid):
        return lambda *args: self.hooked.append((grid, args))

    def run(self, *given):
        grid, fixed, args = given[:3], given[3:9], given[9:]
        assert fixed == (STREAM, self.function, self.packed_metadata, None, None, None)
        self.launches.append((grid, args))


@pytest.fixture
def kernel(monkeypatch):
    """A kernel whose compiled versions record the launches."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("the interpreter compiles nothing")
    # Tensors of a CPU have the device -1.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", STREAMS.get, False)
    compiled, launches, hooked = [], [], []

    def run(self, *args, grid, warmup, **options):
        compiled.append(args)
        return Version(launches, hooked)

    monkeypatch.setattr(triton.runtime.jit.JITFunction, "run", run)
    kernel = CachedKernel(_kernel, do_not_specialize=["ptr", "size"])
    kernel.compiled, kernel.launches, kernel.hooked = compiled, launches, hooked
    return kernel


@pytest.mark.parametrize("name", SAME)
def test_a_compiled_version_is_launched_again_for(kernel, name):
    kernel[(3,)](*FIRST, num_warps=1)
    kernel[(7, 2)](*SAME[name], num_warps=1)
    assert len(kernel.compiled) == 1
    assert kernel.launches == [((7, 2, 1), SAME[name])]


@pytest.mark.parametrize("kind", ["launch_enter_hook", "launch_exit_hook"])
def test_launches_call_the_hooks_of_profilers(kernel, kind, monkeypatch):
    kernel[(3,)](*FIRST, num_warps=1)
    chain = triton.knobs.HookChain()
    monkeypatch.setattr(triton.knobs.runtime, kind, chain)
    kernel[(4,)](*FIRST, num_warps=1)
    chain.add(print)
    kernel[(5,)](*FIRST, num_warps=1)
    assert kernel.launches == [((4, 1, 1), FIRST)]
    assert kernel.hooked == [((5, 1, 1), FIRST)]


@pytest.mark.parametrize("name", OTHER)
def test_triton_chooses_the_version_for(kernel, name):
    kernel[(3,)](*FIRST, num_warps=1)
    kernel[(3,)](*OTHER[name], num_warps=1)
    assert [args[2:] for args in kernel.compiled] == [FIRST[2:], OTHER[name][2:]]
    assert not kernel.launches


def test_triton_chooses_the_version_for_another_number_of_warps(kernel):
    kernel[(3,)](*FIRST, num_warps=1)
    kernel[(3,)](*FIRST, num_warps=4)
    assert len(kernel.compiled) == 2


def test_a_kernel_is_launched_on_the_device_of_its_tensors(kernel, monkeypatch):
    current = [0]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])

    @contextmanager
    def device(number):
        current[0] = number
        yield
        current[0] = 0

    monkeypatch.setattr(torch.cuda, "device", device)
    kernel[(3,)](*FIRST, num_warps=1)
    assert len(kernel.compiled) == 1
    assert current == [0]


def test_launches_pass_what_triton_passes_except_hooks(kernel):
    version = object.__new__(triton.compiler.CompiledKernel)
    version.module, version.function, version.packed_metadata = 1, 2, (1, 0)
    version.name, version.src = "kernel", None
    calls = []
    version._run = lambda *given: calls.append(given)
    version[(7, 2, 1)](*FIRST, stream=STREAM)
    _launch(version, (7, 2, 1), -1, FIRST)
    theirs, ours = calls
    assert len(theirs) == len(ours)
    assert ours[6:9] == (None, None, None)
    for one, two in zip(theirs[:6] + theirs[9:], ours[:6] + ours[9:], strict=True):
        assert one is two
