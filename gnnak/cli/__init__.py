"""The command line, `gnnak`: one file per command."""

import os
import select
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn, TextIO

from gnnak.errors import DamagedFileWarning, GnnakError
from gnnak.training.processes.stopping import Stopped, stoppable
from gnnak.training.processes.workers import follow_main, is_worker, main_is_gone


def main() -> None:
    if is_worker():
        follow_main()
    try:
        with stoppable(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            sys.exit(_run_command())
    except Stopped as stopped:
        _fail(str(stopped), stopped.exit_code)


def _run_command() -> int | None:
    from gnnak.cli.program import app

    try:
        return app(standalone_mode=False)
    except GnnakError as error:
        _fail(str(error), 2)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            # The reader of the output, such as `head`, has read enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except Exception as error:
        # Typer's errors for a wrong option or command format their own message.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            if is_worker() and main_is_gone(10.0):
                sys.exit(1)
            raise
        _fail(_wrong_number(error) or format_message(), getattr(error, "exit_code", 2))


NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}
"""Maps error types of pydantic to the kind of number that the user should give."""


def _wrong_number(error: Any) -> str:
    """Return a message if a value is no number or too small; "" for other errors."""
    reasons: list[Any] = getattr(error.__cause__, "errors", list)()
    if not reasons:
        return ""
    kind, option, value = reasons[0]["type"], error.param.opts[0], reasons[0]["input"]
    if kind == "greater_than_equal":
        least = f"{reasons[0]['ctx']['ge']:g}"
        return f"{option} is {value}; give a number of at least {least}."
    return f"{option} is {value!r}; give {NUMBERS[kind]}." if kind in NUMBERS else ""


def _output_is_closed() -> bool:
    if not hasattr(select, "poll"):
        return True
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # none, in memory, or closed
        return False
    poll = select.poll()
    poll.register(output, 0)  # errors and closed pipes are always reported
    return bool(poll.poll(0))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning; only the main process prints warnings about damaged files."""
    damaged = issubclass(category, DamagedFileWarning)
    if not damaged and not Path(filename).is_relative_to(Path(__file__).parents[1]):
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)
    elif not damaged or not is_worker():
        sys.stderr.write(f"warning: {message}\n")


def _fail(message: str, code: int) -> NoReturn:
    printed_by_main = is_worker() and main_is_gone(10.0)
    if message.strip() and not printed_by_main:
        sys.stderr.write(f"error: {message}\n")
    sys.exit(code)
