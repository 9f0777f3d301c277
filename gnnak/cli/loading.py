"""Loading data sets behind a progress bar, for the commands that need them."""

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
    """Give what loads a data set, with a bar for all of them and one for each.

    Args:
        total: How many will be loaded.
        seed: Fixes what is generated.
        data_dir: A folder with data files.
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
