"""Repeat random samples when activation checkpointing recomputes a layer.

Activation checkpointing (`torch.utils.checkpoint`) runs a layer a second time in the
backward pass. Before that, PyTorch restores the state of the random number generators
that the layer began with. The layers of a forward pass share one random sample, so this
state does not suffice to sample again: only the first layer sampled. `Replay` therefore
remembers, for the state that each layer began with, which sample the layer used.
"""

import hashlib
import threading
import weakref

import torch
from torch import Tensor

from gnnak.subgraphs.rooted import RootedSubgraphs

MAX_CALLS = 2000
"""A `Replay` remembers the samples of this number of layer calls, the latest ones. An
entry takes about 10 KB on a CPU, and less on a GPU."""

Key = tuple[bytes, torch.Size, int]
"""State of the random number generator, shape of `edge_index`, number of nodes."""


class Sample:
    """Random subgraphs, and the states of the random number generator around them.

    Args:
        before: State of the generator of the graph's device before sampling.
        after: State of the same generator after sampling.
        subgraphs: The random subgraphs. Only a weak reference is stored.
    """

    def __init__(
        self, before: Tensor, after: Tensor, subgraphs: RootedSubgraphs
    ) -> None:
        self.before = before
        self.after = after
        self.subgraphs = weakref.ref(subgraphs)


class Replay:
    """Remembers which random sample each layer call used; shared by all threads.

    On a GPU, the backward pass runs in another thread than the forward pass.
    """

    def __init__(self) -> None:
        self._samples: dict[Key, Sample] = {}
        self._lock = threading.Lock()

    def remember(self, key: Key, sample: Sample) -> None:
        """Store the sample of a layer call.

        Args:
            key: The `key_of` the layer call.
            sample: The sample that the layer used.
        """
        with self._lock:
            self._samples.pop(key, None)
            self._samples[key] = sample
            if len(self._samples) > MAX_CALLS:
                del self._samples[next(iter(self._samples))]

    def find(self, key: Key) -> Sample | None:
        """Return the sample of the layer call with this key; None if unknown."""
        return self._samples.get(key)


def key_of(state: Tensor, edge_index: Tensor, num_nodes: int) -> Key:
    """Return the key of a layer call.

    Args:
        state: State of the random number generator when the layer was called.
        edge_index: The graph's edges, [2, e].
        num_nodes: Number of nodes, n.
    """
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    return digest, edge_index.shape, num_nodes


def random_state(device: torch.device) -> Tensor:
    """Return the state of PyTorch's default random number generator of a device."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


def set_random_state(device: torch.device, state: Tensor) -> None:
    """Set the state of PyTorch's default random number generator of a device."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def backward_task() -> int | None:
    """Return the number of the backward pass that the calling thread is running.

    None if the calling thread is not running a backward pass.
    """
    task = torch._C._current_graph_task_id()
    return None if task == -1 else task
