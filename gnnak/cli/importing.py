"""Import a module of the user that is named on the command line."""

import importlib
import os
import sys

from gnnak.errors import OptionError


def import_own(module: str) -> None:
    """Import a module; also look for it in the current folder.

    Raises:
        OptionError: If there is no such module, or its import fails.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        importlib.import_module(module)
    except Exception as error:  # the user's module may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(
            f"the module {module} cannot be imported: {reason}; give the name of a "
            "module in the current folder or of an installed one."
        ) from error
