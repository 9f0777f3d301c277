"""Backward passes run in the calling thread while a loader on a GPU is iterated."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext

import pytest
import torch
from torch_geometric.data import Data

from gnnak import GraphLoader
from gnnak.errors import OptionError
from gnnak.loading import graph_loader
from gnnak.loading.graph_loader import backward_in_calling_thread
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


def test_backward_in_calling_thread_restores_the_setting_before():
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    assert second_thread()
    with torch.autograd.set_multithreading_enabled(False):
        with backward_in_calling_thread(GPU):
            pass
        assert not second_thread()


def test_backward_in_calling_thread_restores_the_setting_after_an_error():
    with pytest.raises(ZeroDivisionError), backward_in_calling_thread(GPU):
        raise ZeroDivisionError
    assert second_thread()


@pytest.mark.parametrize("first_out", [0, 1])
def test_overlapping_blocks_restore_the_setting_after_the_last_one(first_out):
    blocks = [ExitStack(), ExitStack()]
    for block in blocks:
        block.enter_context(backward_in_calling_thread(GPU))
    blocks[first_out].close()
    assert not second_thread()
    blocks[1 - first_out].close()
    assert second_thread()


def test_other_threads_keep_their_setting():
    default = in_another_thread(second_thread)
    with backward_in_calling_thread(GPU):
        assert in_another_thread(second_thread) == default


@pytest.mark.parametrize("has_own_block", [False, True])
def test_a_block_left_by_another_thread_changes_nothing_there(has_own_block):
    default, block = in_another_thread(second_thread), ExitStack()
    block.enter_context(backward_in_calling_thread(GPU))

    def leave() -> tuple[bool, bool]:
        own = backward_in_calling_thread(GPU) if has_own_block else nullcontext()
        with own:
            block.close()
            inside = second_thread()
        return inside, second_thread()

    assert in_another_thread(leave) == (default and not has_own_block, default)
    # The thread that entered the block has its setting again after its next block.
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    assert second_thread()


def test_a_block_entered_in_inference_mode_changes_nothing():
    block = ExitStack()
    with torch.inference_mode():
        block.enter_context(backward_in_calling_thread(GPU))
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    block.close()
    assert second_thread()


def test_a_block_left_in_inference_mode_is_restored_after_the_next_one():
    block = ExitStack()
    block.enter_context(backward_in_calling_thread(GPU))
    with torch.inference_mode():
        block.close()
    with backward_in_calling_thread(GPU):
        assert not second_thread()
    assert second_thread()


def rings(count: int) -> list[Data]:
    nodes = torch.arange(4)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return [Data(torch.rand(4, 1), edge_index) for _ in range(count)]


def test_a_loader_on_a_cpu_changes_nothing():
    assert [second_thread() for _ in GraphLoader(rings(4), 2)] == [True, True]


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Let loaders on a CPU set what loaders on a GPU set."""
    name = "backward_in_calling_thread"
    monkeypatch.setattr(graph_loader, name, lambda _: backward_in_calling_thread(GPU))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_loader_on_a_gpu_sets_the_calling_thread_while_it_is_iterated():
    loader = GraphLoader(rings(4), 2)
    assert second_thread()
    assert [second_thread() for _ in loader] == [False, False]
    assert second_thread()
    for _ in loader:
        break
    assert second_thread()
    for _ in zip(loader, loader, strict=True):
        assert not second_thread()
    assert second_thread()


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_loader_with_multithreaded_backward_changes_nothing():
    loader = GraphLoader(rings(4), 2, multithreaded_backward=True)
    assert "multithreaded_backward=True" in repr(loader)
    assert [second_thread() for _ in loader] == [True, True]
    with pytest.raises(OptionError, match="multithreaded_backward is 1; give True"):
        GraphLoader(rings(4), 2, multithreaded_backward=1)


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
