"""The command line: one file a command."""

import sys
from typing import NoReturn

from gnnak.errors import GnnakError
from gnnak.training.stopping import Stopped, stoppable, stoppable_at_once
from gnnak.training.workers import follow_main, is_worker, main_is_gone


def main() -> None:
    """Run the command line; a wrong input is one line and exit code 2."""
    if is_worker():
        follow_main()
    try:
        with stoppable():
            sys.exit(_answer())
    except Stopped as stopped:
        _fail(str(stopped), stopped.exit_code)


def _answer() -> int | None:
    """Run the command; what it is not meant to do ends in a line and exit code 2."""
    try:
        # Here, for loading it takes seconds, in which Ctrl-C is answered, too.
        with stoppable_at_once():
            from gnnak.cli.program import app

        return app(standalone_mode=False)
    except GnnakError as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except Exception as error:
        # What typer raises for a wrong option or command knows its own sentence.
        tell = getattr(error, "format_message", None)
        if tell is None:
            if is_worker() and main_is_gone(10.0):
                sys.exit(1)
            raise
        _fail(tell(), getattr(error, "exit_code", 2))


def _fail(sentence: str, code: int) -> NoReturn:
    """Say what is wrong, if anything is to be said beside the help, and exit."""
    told_by_main = is_worker() and main_is_gone(10.0)
    if sentence.strip() and not told_by_main:
        sys.stderr.write(f"error: {sentence}\n")
    sys.exit(code)
