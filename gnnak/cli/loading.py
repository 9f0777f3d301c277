"""Load data sets with a progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gnnak.datasets import Dataset, Entry, Request, load_entry


@contextmanager
def loading(
    total: int, seed: int, data_dir: Path | None
) -> Iterator[Callable[[Entry], Dataset]]:
    """Context manager: show progress bars, and yield a function that loads a data set.

    One bar counts the loaded data sets, another shows the progress of the current data
    set. The bars disappear at the end of the `with` block.

    Args:
        total: Number of data sets that will be loaded.
        seed: Seed of generated data sets.
        data_dir: Folder with data files; None = the default folders.
    """
    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    folder = None if data_dir is None else str(data_dir)
    hidden = not console.is_terminal
    with Progress(
        *columns, console=console, transient=True, disable=hidden
    ) as progress:
        overall = progress.add_task("data sets", total=total)

        def load(entry: Entry) -> Dataset:
            task = progress.add_task(entry.name, total=None)

            def advance(done: int, whole: int) -> None:
                progress.update(task, completed=done, total=whole)

            request = Request(None, seed, folder, advance)
            dataset = load_entry(entry, request)
            progress.remove_task(task)
            progress.advance(overall)
            return dataset

        yield load
