"""Find how much memory can still be allocated on a device."""

import os
from pathlib import Path

import torch

from gnnak.errors import SizeError

UNCHECKED_BYTES = 1 << 28
"""The free memory is not looked up if at most this many bytes are needed."""
MEMINFO = Path("/proc/meminfo")
"""Linux file with the memory of the machine; its values are in units of 1024 bytes."""
CGROUP = Path("/proc/self/cgroup")
"""Linux file that names the control groups of this process. A container is a control
group with a memory limit."""
CGROUPS = Path("/sys/fs/cgroup")
"""Linux folder with the limits of all control groups."""
CGROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}
"""By controller ("" means version 2 of control groups): the names of the files with the
memory limit and the memory in use, and of the entry of `memory.stat` that counts memory
in use that Linux frees on demand."""


def free_bytes(device: torch.device) -> int | None:
    """Return how many bytes can still be allocated on a device; None if unknown.

    On a GPU, this includes memory that PyTorch has reserved but not allocated. On a
    CPU, this is the available memory of the machine or of the container, whichever is
    less; on systems other than Linux, the total memory of the machine.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(
            device
        )
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu":
        return None
    known = [_of_machine(), *_of_containers()]
    return min((count for count in known if count is not None), default=None)


def check_free(needed: float, device: torch.device, what: str, advice: str) -> None:
    """Raise `SizeError` if more memory is needed than is free.

    Args:
        needed: Memory in bytes.
        device: The device that the memory will be allocated on.
        what: What takes the memory, in the plural, for the error message.
        advice: What the user can do instead, for the error message.
    """
    if needed <= UNCHECKED_BYTES:
        return
    free = free_bytes(device)
    if free is not None and needed > free:
        raise SizeError(
            f"{what} take {needed / 1e9:,.1f} GB, more than the {free / 1e9:,.1f} GB "
            f"of free memory; {advice}."
        )


def _of_machine() -> int | None:
    """Return the available memory of this machine in bytes; None if unknown."""
    available = _entries(MEMINFO).get("MemAvailable:")
    if available is not None:
        return 1024 * available
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
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


def _entries(file: Path) -> dict[str, int]:
    """Read a file with a name and a number in each line; {} if there is no file."""
    rows = (line.split() for line in _read(file).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(file: Path) -> str:
    """Return the text of a file; "" if the file cannot be read."""
    try:
        return file.read_text()
    except OSError:
        return ""
