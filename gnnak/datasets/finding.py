"""Find data files on disk, and the folder for cached files."""

import os
import sys
from pathlib import Path

from gnnak.errors import OptionError

DATA_VARIABLE = "GNNAK_DATA"
CACHE_VARIABLE = "GNNAK_CACHE"


def cache_dir() -> Path:
    """Return the folder for downloaded and generated files; it may not exist yet.

    The folder is the value of the environment variable `GNNAK_CACHE` if it is set, else
    the folder `gnnak` in the user's cache folder: `XDG_CACHE_HOME` or `~/.cache`,
    `~/Library/Caches` on macOS, `LOCALAPPDATA` on Windows.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    if not shared and sys.platform == "win32":
        shared = os.environ.get("LOCALAPPDATA")
    if not shared and sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gnnak"
    return Path(shared) / "gnnak" if shared else Path.home() / ".cache" / "gnnak"


def find_file(file_name: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Find a data file in `data_dir`, the user's data folder or the cache folder.

    The folders are searched in this order. The user's data folder is the value of the
    environment variable `GNNAK_DATA`.

    Args:
        file_name: Name of the file, without a folder.
        data_dir: The folder to search first; None = search the other folders only.

    Returns:
        The path of the first file found; None if no folder has the file.

    Raises:
        OptionError: If `data_dir`, or the folder in `GNNAK_DATA`, does not exist.
    """
    folders = [cache_dir()]
    for option, folder in (
        (DATA_VARIABLE, os.environ.get(DATA_VARIABLE)),
        ("data_dir", data_dir),
    ):
        if not folder:
            continue
        if not Path(folder).is_dir():
            raise OptionError(
                f"{option} is {str(folder)!r}, which is not a folder; give the folder "
                "that holds the data files."
            )
        folders.insert(0, Path(folder))
    return next((f / file_name for f in folders if (f / file_name).is_file()), None)
