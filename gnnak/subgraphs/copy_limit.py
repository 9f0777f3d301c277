"""Limit the number of node copies and edge copies, before memory runs out."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from gnnak.errors import SizeError
from gnnak.typing import check_count

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

UNCHECKED_BYTES = 1 << 28
"""`check_free` reads the free memory only if more bytes than this are needed."""
MEMINFO = Path("/proc/meminfo")
"""File with the available memory of the machine, in units of 1024 bytes."""
CGROUP = Path("/proc/self/cgroup")
"""File with the control groups of this process, such as its container."""
STATUS = Path("/proc/self/status")
"""File with the memory that this process uses, in units of 1024 bytes."""
PROCESS_LIMITS = {"RLIMIT_AS": "VmSize:", "RLIMIT_DATA": "VmData:"}
"""Maps limits (`ulimit -v` and `-d`) to lines of /proc/self/status with the usage."""
CGROUPS = Path("/sys/fs/cgroup")
"""Folder with the limits of all control groups."""
CGROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Maps a controller of control groups ("" in version 2) to the names of two files, with
the memory limit and the memory use, and to the entry of `memory.stat` for memory that
Linux frees on demand."""


def free_bytes(device: torch.device) -> int | None:
    """Return the free bytes of a device; None if unknown.

    On a GPU, memory that PyTorch has reserved but not allocated counts as free. On a
    CPU, the limits of containers and of `ulimit` are respected.
    """
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device)
        unused = reserved - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu":
        return None
    known = [_of_machine(), *_of_containers(), *_of_process()]
    return min((count for count in known if count is not None), default=None)


def check_free(needed: float, device: torch.device, what: str, advice: str) -> None:
    if needed <= UNCHECKED_BYTES:
        return
    free = free_bytes(device)
    if free is not None and needed > free:
        told = f"{what} take {needed / 1e9:,.1f} GB, more than the {free / 1e9:,.1f} GB"
        raise SizeError(f"{told} of free memory; {advice}.")


def _of_machine() -> int | None:
    available = _entries(MEMINFO).get("MemAvailable:")
    if available is not None:
        return 1024 * available
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_containers() -> list[int]:
    """Return the free bytes of each container (control group) of this process."""
    found = []
    for line in _read(CGROUP).splitlines():
        _, controller, path = line.split(":", 2)
        if controller not in CGROUP_FILES:
            continue
        limit_name, used_name, freeable_name = CGROUP_FILES[controller]
        # Inside a container, its own control group may be mounted as the top folder.
        for folder in (CGROUPS / controller, CGROUPS / controller / path.lstrip("/")):
            limit, used = _read(folder / limit_name), _read(folder / used_name)
            if limit.strip().isdigit() and used.strip().isdigit():
                freeable = _entries(folder / "memory.stat").get(freeable_name, 0)
                found.append(max(int(limit) - int(used) + freeable, 0))
    return found


def _of_process() -> list[int]:
    """Return the free bytes under each limit that `ulimit` has set for this process."""
    used = _entries(STATUS)
    limits = {entry: getrlimit(name) for name, entry in PROCESS_LIMITS.items()}
    known = ((x, limit) for x, limit in limits.items() if limit is not None)
    return [max(limit - 1024 * used[x], 0) for x, limit in known if x in used]


def getrlimit(name: str) -> int | None:
    """Return a limit of this process in bytes; None if not set, and on Windows."""
    if resource is None:
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _entries(file: Path) -> dict[str, int]:
    rows = (line.split() for line in _read(file).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text()
    return ""


BYTES_PER_COPY = 80
"""Assumed peak memory of extraction, in bytes per copy. Measured: 35 to 60 bytes, of
which the result takes 24."""
UNCHECKED = 1 << 22
"""`CopyLimit` reads the free memory only if there are more copies than this."""
UNKNOWN_MEMORY = 1 << 34
"""Bytes that are assumed to be free on a device whose free memory is unknown."""
MARGIN = 2
"""An estimate of the number of copies may exceed the limit by this factor."""


@dataclass(frozen=True)
class Limited:
    """Base class of extractors with the option `copy_limit`."""

    copy_limit: int | None = field(default=None, kw_only=True, repr=False)
    """Largest number of node copies plus edge copies. If there are more, a call raises
    `SizeError`. If None, as many are allowed as fit into free memory. `NodeDeletion`
    and `MaskedEgoNets` count copies before they remove edges. `RandomWalks` also counts
    the steps of walks."""

    def __post_init__(self) -> None:
        check_limit(self.copy_limit)


class CopyLimit:
    """The largest number of node and edge copies: `given`, or what fits into memory.

    `lower` names the options that error messages advise to lower.
    """

    def __init__(
        self,
        given: int | None,
        device: torch.device,
        lower: str = "num_hops or the number of nodes per batch",
    ) -> None:
        self.given, self.device, self.lower = check_limit(given), device, lower

    @cached_property
    def count(self) -> int:
        """The limit, in copies; free memory is read at first use only."""
        if self.given is not None:
            return self.given
        return (free_bytes(self.device) or UNKNOWN_MEMORY) // BYTES_PER_COPY

    def is_below(self, copies: float) -> bool:
        """Return whether the limit is below `copies`."""
        if self.given is None and copies <= UNCHECKED:
            return False
        return copies > self.count

    def check(
        self,
        copies: float,
        about: str = "at least",
        what: str = "node copies and edge copies",
        advice: str = "",
    ) -> None:
        """Raise `SizeError` if `copies` exceeds the limit.

        The other arguments are words for the message. If `about` is "about", `copies`
        is an estimate, which may exceed the limit by the factor `MARGIN`.
        """
        if not self.is_below(copies / MARGIN if about == "about" else copies):
            return
        size, limit = "", f"copy_limit={self.count:,}"
        if self.given is None:
            taken, free = (n * BYTES_PER_COPY / 1e9 for n in (copies, self.count))
            size = f" which take {taken:,.1f} GB,"
            limit = f"the {free:,.1f} GB of free memory"
        raise SizeError(
            f"the rooted subgraphs have {about} {copies:,.0f} {what} (a node or an "
            f"edge counts once for every subgraph that it is in),{size} more than "
            f"{limit} allows; lower {self.lower}, or raise copy_limit"
            f"{f'; {advice}' if advice else ''}."
        )


def check_limit(copy_limit: int | None) -> int | None:
    if copy_limit is not None:
        check_count("copy_limit", copy_limit, least=1)
    return copy_limit
