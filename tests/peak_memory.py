"""Measure the peak memory of a command that runs in a process of its own."""

PROGRAM = """
import atexit, pathlib, runpy, sys
status = pathlib.Path("/proc/self/status")
peak = lambda: status.read_text().split("VmHWM:")[1].split()[0]
atexit.register(lambda: print(peak(), file=sys.stderr))
runpy.run_module("gnnak.cli", run_name="__main__", alter_sys=True)
"""
"""Runs `gnnak` with the arguments; the last line on stderr is the peak memory in kB.

`os.wait4` and `getrusage` would report at least the memory of the process that started
the command, here of pytest.
"""


def peak_megabytes(stderr: str) -> float:
    return int(stderr.splitlines()[-1]) / 1024
