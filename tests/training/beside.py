"""A fake of the GPU side stream on which batches are prefetched."""

import threading
from contextlib import contextmanager


class Beside:
    """Records the threads that prefetch results, and the results handed over."""

    def __init__(self):
        self.makers, self.handed = [], []

    @contextmanager
    def inside(self):
        self.makers.append(threading.current_thread())
        yield

    def mark(self):
        return threading.current_thread()

    def hand_over(self, result, mark):
        assert mark is self.makers[0] is not threading.current_thread()
        self.handed.append(result)
