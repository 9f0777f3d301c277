"""Backward passes run in the calling thread while a loader on a GPU is iterated."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import torch
from torch_geometric.data import Data

from gnnak import GraphLoader
from gnnak.loading.calling_thread import backward_in_calling_thread
from tests.gpu import needs_gpu

GPU = torch.device("cuda")


def second_thread() -> bool:
    """Return whether this thread leaves its backward passes to another thread."""
    return torch._C._is_multithreading_enabled()


def in_another_thread(function):
    """Call a function in another thread, which has PyTorch's default setting."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.fixture(autouse=True)
def pytorch_default():
    with torch.autograd.set_multithreading_enabled(True):
        yield


def test_the_setting_before_is_restored():
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    assert second_thread()
    with torch.autograd.set_multithreading_enabled(False):
        with backward_in_calling_thread(GPU):
            pass
        assert not second_thread()


def test_it_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), backward_in_calling_thread(GPU):
        raise ZeroDivisionError
    assert second_thread()


@pytest.mark.parametrize("first_out", [0, 1])
def test_blocks_that_overlap_restore_it_after_the_last_one(first_out):
    blocks = [ExitStack(), ExitStack()]
    for block in blocks:
        block.enter_context(backward_in_calling_thread(GPU))
    blocks[first_out].close()
    assert not second_thread()
    blocks[1 - first_out].close()
    assert second_thread()


def test_a_block_closed_by_another_thread_changes_nothing_there():
    default, block = in_another_thread(second_thread), ExitStack()

    def enter_and_leave_to_another() -> bool:
        block.enter_context(backward_in_calling_thread(GPU))
        return in_another_thread(lambda: block.close() or second_thread())

    assert in_another_thread(enter_and_leave_to_another) == default
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    assert second_thread()


def test_other_threads_keep_their_setting():
    default = in_another_thread(second_thread)
    with backward_in_calling_thread(GPU):
        assert in_another_thread(second_thread) == default


def rings(count: int) -> list[Data]:
    nodes = torch.arange(4)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return [Data(torch.rand(4, 1), edge_index) for _ in range(count)]


def test_a_loader_on_a_cpu_changes_nothing():
    assert [second_thread() for _ in GraphLoader(rings(4), 2)] == [True, True]


@needs_gpu
def test_a_loop_over_a_loader_on_a_gpu_calls_hooks_in_its_own_thread():
    weight, threads = torch.ones(1, device="cuda", requires_grad=True), []
    weight.register_hook(lambda _: threads.append(threading.get_ident()))
    for batch in GraphLoader(rings(8), 2, device="cuda"):
        (batch.x * weight).sum().backward()
        if len(threads) == 2:
            break
    assert threads == [threading.get_ident()] * 2
    assert second_thread()
    (weight * 2).sum().backward()
    assert threads[2] != threading.get_ident()
