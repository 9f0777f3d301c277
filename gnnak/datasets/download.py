"""Download data sets; a failed download is explained with what to do instead."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gnnak.datasets.finding import cache_dir
from gnnak.errors import FileFormatError, GnnakError, GraphError
from gnnak.graphs import GraphFile
from gnnak.graphs.reverse_edges import without_reverse_edges


def download(file_name: str, fetch: Callable[[Path], GraphFile]) -> GraphFile:
    """Download a data set into the cache folder and return the graphs.

    Args:
        file_name: Name of the npz file that the user can provide if the download fails;
            the error message contains this name.
        fetch: Function that takes a folder, downloads the data set into it and returns
            the graphs.

    Returns:
        The graphs with each undirected edge stored once.

    Raises:
        FileFormatError: If the download fails; the message says which file to put into
            which folder instead.
        GraphError: If the downloaded graphs are not undirected.
    """
    folder = cache_dir() / "downloads"
    try:
        file = fetch(folder)
    except FileFormatError as error:
        reason = str(error).rstrip(".")
        raise FileFormatError(
            f"{reason}; alternatively put {file_name} into the folder that --data-dir "
            "or GNNAK_DATA names."
        ) from error
    except GnnakError:
        raise
    except Exception as error:  # sockets and zip files raise many types
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileFormatError(
            f"{file_name} was not found and could not be downloaded ({reason}); put "
            "it into the folder that --data-dir or GNNAK_DATA names."
        ) from error
    once = without_reverse_edges(file.store)
    if once is None:
        raise GraphError(f"the graphs downloaded for {file_name} are not undirected.")
    return replace(file, store=once)
