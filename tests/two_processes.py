"""Run a function in two processes that train together, connected by gloo."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed


def results_of(function: Callable[..., Any], folder: Path, *given: Any) -> list[Any]:
    """Return what `function(rank, *given)` returns in each of two processes."""
    torch.save(given, folder / "given.pt")
    name = f"{function.__module__}:{function.__name__}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __name__, name, str(folder)]
    running = [
        subprocess.Popen([*command, str(rank)], env=environment) for rank in (0, 1)
    ]
    try:
        assert [process.wait(600) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    paths = [folder / f"{rank}.pt" for rank in (0, 1)]
    return [torch.load(path, weights_only=False) for path in paths]


def main(name: str, folder: Path, rank: int) -> None:
    module, function = name.split(":")
    given = torch.load(folder / "given.pt", weights_only=False)
    start = f"file://{folder / 'start'}"
    distributed.init_process_group("gloo", start, rank=rank, world_size=2)
    found = getattr(importlib.import_module(module), function)(rank, *given)
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
