"""`gnnak brec`, `gnnak wl brec`: count graph pairs that GNNs or tests distinguish."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import MofNCompleteColumn
from rich.table import Table

from gnnak.cli.names import (
    BREC_GROUPS,
    WL_TESTS,
    check_each,
    check_model,
    examples,
    flag,
    option,
)
from gnnak.cli.options import (
    ACCELERATOR,
    DATA_DIR,
    JSON,
    MEMORY,
    RESULTS,
    TESTS,
    WLOptions,
    expanded,
    find_contenders,
    find_model,
    given,
    progress_bar,
    show,
)
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice, check_seed

if TYPE_CHECKING:
    from gnnak.brec.data import Pair
    from gnnak.training.records.results import Record
    from gnnak.wl.bounds import Contender

EXAMPLES = examples(
    "gnnak brec --model gin-ak+",
    "gnnak brec --model gin-ak+ --group basic --group regular --seed 100 --seed 200",
    "gnnak brec --model sswl+-gin --jobs 8",
    "gnnak brec --model ppgn-ak+ --epochs 0 --jobs 8",
    "gnnak brec --model ppgn --group basic --no-ceiling --json",
)
WL_EXAMPLES = examples(
    "gnnak wl brec",
    "gnnak wl brec --test sswl --test 2-fwl --group cfi",
    "gnnak wl brec --test swl --num-hops 1 --no-root-mark --json",
)
FILE, WL_FILE = "brec.jsonl", "wl_brec.jsonl"
"""Files in the results folder to which the commands append records."""
GROUPS = option(
    callback=check_each(lambda name: check_choice("--group", name, BREC_GROUPS)),
    help=f"May be repeated. One of: {', '.join(BREC_GROUPS)}.",
)


@dataclass
class NetworkOptions:
    """Options of a network; those that are None have the values of the BREC paper."""

    model: str = typer.Option(
        "gin-ak+", callback=check_model, help="Name of the network."
    )
    subgraphs: str | None = option(help="egonets, whole, deletion or masked-egonets.")
    num_hops: int | None = option(help="Radius of the egonets.")
    num_layers: int | None = option(help="Number of layers.")
    base_layers: int | None = option(help="Layers of the base GNN in each layer.")
    channels: int | None = option(help="Width of the node states.")
    pairs: list[str] | None = option(
        help="Encoding of pairs (root, node), such as rrwp; may be repeated."
    )
    lr: float | None = option(help="Learning rate.")
    epochs: int | None = option(
        help="Largest number of epochs; 0 tests random weights.", show_default="20"
    )


@expanded
def brec(
    network: NetworkOptions,
    group: list[str] | None = GROUPS,
    seed: list[int] | None = option(help="Seed; may be repeated.", show_default="100"),
    jobs: int = typer.Option(
        1, min=1, help="Number of pairs in parallel on the device."
    ),
    ceiling: bool = typer.Option(
        True,
        help="Also count exactly the pairs distinguished by the WL test that bounds "
        "the network.",
    ),
    accelerator: str = ACCELERATOR,
    data_dir: Path | None = DATA_DIR,
    runs: Path = typer.Option(
        Path("runs/brec"), help="Folder for results of finished pairs."
    ),
    results: Path = RESULTS,
    as_json: bool = JSON,
) -> None:
    """Train a network on each pair of BREC; count the pairs that it distinguishes.

    BREC has 400 pairs of graphs in seven groups; the file brec.npz must be in the data
    folder. For each pair, a new network is trained on 32 relabellings of both graphs,
    that is, copies with randomly permuted nodes. A paired test then compares the
    embeddings. Its value is computed in two ways: as in BREC's released code, and
    multiplied by q = 32, the number of relabellings. BREC's threshold is meant for the
    multiplied value.

    Options of the network that are not given have the values of the BREC paper for this
    network. A stopped run continues where it stopped if it is started again with the
    same options. The record is appended to brec.jsonl in the results folder.
    """
    seeds = [check_seed("--seed", number) for number in seed or [100]]
    with stoppable_at_once():
        from gnnak.brec import records
        from gnnak.brec.run import Progress, Trials
        from gnnak.brec.trial import trial_options
        from gnnak.training.processes.machine import Machine
        from gnnak.training.records.results import append_record, check_appendable

    options = trial_options(**vars(network) | {"model": find_model(network.model)})
    records.check_network(options, jobs)
    device = Machine(accelerator).device  # type: ignore[arg-type]
    finished = Progress.of(runs, options)
    for path in (results / FILE, finished.path):
        check_appendable(path)
    pairs = _load(data_dir, group)
    trials = Trials(pairs, options, seeds, device, finished, jobs)
    bound, counted, remarks = None, None, []
    if ceiling:
        bound = records.ceiling_of(options)
        remarks = [] if bound else [records.no_ceiling(options)]
    if bound is not None:
        with _bar("ceiling", _count(pairs)) as advance:
            counted = records.count_ceiling(pairs, bound, results / WL_FILE, advance)
    with _bar(options.model, len(seeds) * _count(pairs), with_count=True) as advance:

        def notify(group: str, seed: int) -> None:
            advance(1, f"seed {seed}, {group}")

        record = records.network_record(trials, counted, remarks, notify)
    append_record(results / FILE, record)
    if as_json:
        typer.echo(json.dumps(record))
        return
    show(_table(record), *record["notes"])


@expanded
def wl_brec(
    chosen: WLOptions,
    test: list[str] | None = TESTS,
    group: list[str] | None = GROUPS,
    max_memory: float = MEMORY,
    data_dir: Path | None = DATA_DIR,
    record: bool = flag("--record", help=f"Append the counts to `{WL_FILE}`."),
    results: Path = RESULTS,
    as_json: bool = JSON,
) -> None:
    """Count the pairs of BREC that each Weisfeiler-Leman (WL) test distinguishes.

    BREC has 400 pairs of graphs in seven groups; the file brec.npz must be in the data
    folder. The count of a test is exact, and is the largest count that a network with
    the power of the test can reach.

    Without options such as --num-hops, the tests run with several radii and readouts,
    for up to half an hour on one core. With such options, each test runs once. The
    tests 3-wl, 3-fwl and subgraph-1-wl take hours and run only if they are named with
    --test; 2-fwl is as powerful as 3-wl.
    """
    with stoppable_at_once():
        from gnnak.brec.records import run_brec, wl_record
        from gnnak.training.records.results import append_record, check_appendable

    contenders = choose_contenders(test or [], given(**vars(chosen)))
    groups = _load(data_dir, group)
    if record:
        check_appendable(results / WL_FILE)
    records = []
    with _bar("", len(contenders) * _count(groups)) as advance:
        for contender in contenders:
            advance(0, contender.label)
            counts = list(run_brec(groups, [contender], max_memory, advance))
            records.append(wl_record(contender, counts))
            if record:
                append_record(results / WL_FILE, records[-1])
    if as_json:
        for each in records:
            typer.echo(json.dumps(each))
        return
    notes = [f"{each['contender']}: {each['note']}" for each in records if each["note"]]
    show(_wl_table(records), *notes)


def choose_contenders(
    tests: Sequence[str], options: dict[str, object]
) -> list[Contender]:
    from gnnak.brec.records import BREC_CONTENDERS, COSTLY

    tests = tests or [test for test in WL_TESTS if test not in COSTLY]
    found = find_contenders(tests, options)
    if options:
        return found
    networks = [contender for contender in found if contender.network]
    return [*(c for c in BREC_CONTENDERS if c.test in tests), *networks]


def _load(
    data_dir: Path | None, names: Sequence[str] | None
) -> Mapping[str, Sequence[Pair]]:
    from gnnak.brec.data import load_brec

    groups = load_brec(data_dir)
    return {name: groups[name] for name in names or groups}


def _count(groups: Mapping[str, Sequence[Pair]]) -> int:
    return sum(len(pairs) for pairs in groups.values())


@contextmanager
def _bar(title: str, total: int, with_count: bool = False) -> Iterator[Callable]:
    """Context manager: show a progress bar; yield a function that advances it."""
    with progress_bar(*[MofNCompleteColumn()] * with_count) as bar:
        task = bar.add_task(title, total=total)

        def advance(pairs: int, title: str | None = None) -> None:
            bar.update(task, advance=pairs, description=title and title[:44])

        yield advance


def _table(record: Record) -> Table:
    from gnnak.brec.records import ceiling_of_group, ceiling_range

    built = Table("group", title=f"BREC, {record['options']['model']}")
    built.add_column("pairs", justify="right")
    for seed in record["seeds"]:
        built.add_column(f"released, seed {seed}", justify="right")
        built.add_column(f"times q, seed {seed}", justify="right")
    ceiling = record["ceiling"]
    if ceiling is not None:
        built.add_column("ceiling", justify="right")
    first = next(iter(record["seeds"].values()))
    for name, found in first.items():
        cells = [name, str(found["pairs"])]
        for by_group in record["seeds"].values():
            cells += [str(by_group[name][test]) for test in ("released", "corrected")]
        if ceiling is not None:
            cells.append(ceiling_range(*ceiling_of_group(ceiling, name)))
        if name == "all":
            built.add_section()
        built.add_row(*cells)
    return built


def _wl_table(records: Sequence[Record]) -> Table:
    built = Table("test", title="Pairs of BREC that each test distinguishes")
    groups = records[0]["groups"] if records else {}
    for name, found in groups.items():
        built.add_column(f"{name} ({found['pairs']})", justify="right")
    built.add_column("all", justify="right")
    built.add_column("seconds", justify="right")
    for record in records:
        counts = record["groups"].values()
        cells = [_cell(each["apart"], len(each["not_run"])) for each in counts]
        whole = _cell(record["apart"], record["not_run"])
        built.add_row(record["contender"], *cells, whole, f"{record['seconds']:.1f}")
    return built


def _cell(apart: int, not_run: int) -> str:
    return f"{apart}+" if not_run else str(apart)  # +: some pairs were not tested
