"""Repeat random samples when activation checkpointing recomputes a layer.

Activation checkpointing (`torch.utils.checkpoint`) runs a layer a second time in the
backward pass. Before that, PyTorch restores the random state that the layer began with.
The layers of a forward pass share one random sample, so this state does not suffice to
sample again: only the first layer sampled. Each call of a layer therefore draws a
random number, its *ticket*. The recomputed call draws the same ticket, and `Replay`
remembers which sample belongs to a ticket.
"""

import hashlib
import threading
import weakref

import torch

from gnnak.subgraphs.rooted import RootedSubgraphs

MAX_CALLS = 2000
"""A `Replay` remembers the samples of this number of layer calls, the latest ones."""

Key = tuple[int, int]
"""The ticket of a layer call, and the fingerprint of its graph."""

_LOCK = threading.Lock()


class Sample:
    """Random subgraphs, and the seed to sample them again.

    Args:
        seed: Seed of the generator that sampled the subgraphs.
        subgraphs: The random subgraphs. Only a weak reference is stored.
    """

    def __init__(self, seed: int, subgraphs: RootedSubgraphs) -> None:
        self.seed = seed
        self.subgraphs = weakref.ref(subgraphs)


class Replay:
    """Remembers which random sample each layer call used; shared by all threads.

    On a GPU, the backward pass runs in another thread than the forward pass.
    """

    def __init__(self) -> None:
        self._samples: dict[Key, Sample | None] = {}
        self._lock = threading.Lock()

    def remember(self, key: Key, sample: Sample) -> None:
        """Store the sample of a layer call.

        If two calls have the same key and different samples, neither sample is found:
        this happens only if a user sets the random state back within a forward pass.

        Args:
            key: The ticket of the layer call, and the fingerprint of its graph.
            sample: The sample that the layer used.
        """
        with self._lock:
            known = self._samples.pop(key, sample)
            same = known is not None and known.seed == sample.seed
            self._samples[key] = sample if same else None
            if len(self._samples) > MAX_CALLS:
                del self._samples[next(iter(self._samples))]

    def find(self, key: Key) -> Sample | None:
        """Return the sample of the layer call with this key; None if unknown."""
        return self._samples.get(key)


def draw_ticket(device: torch.device) -> int:
    """Draw a random number from PyTorch's default generator of a device.

    On a GPU, the number is computed from the state of the generator, because reading a
    number that was drawn on a GPU would synchronise.
    """
    if device.type != "cuda":
        return int(torch.randint(2**63 - 1, (), device="cpu"))
    with _LOCK:
        state = torch.cuda.get_rng_state(device)
        torch.rand((), device=device)  # Changes the state for the next ticket.
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def backward_task() -> int | None:
    """Return the number of the backward pass that the calling thread is running.

    None if the calling thread is not running a backward pass.
    """
    task = torch._C._current_graph_task_id()
    return None if task == -1 else task
