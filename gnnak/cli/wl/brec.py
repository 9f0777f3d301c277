"""`gnnak wl brec`: count the pairs of BREC that Weisfeiler-Leman tests distinguish."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak.cli.choices import BREC_GROUPS
from gnnak.cli.options import DataDir, Json, ResultsFolder
from gnnak.cli.wl.options import (
    D2C,
    Centroid,
    Context,
    Hash,
    Hops,
    Mark,
    Memory,
    Readout,
    Tests,
    given,
)
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

EXAMPLES = """
Examples:

    gnnak wl brec

    gnnak wl brec --test sswl --test 2-fwl --group cfi

    gnnak wl brec --test swl --num-hops 1 --no-root-mark --json
"""
RESULTS = "wl_brec.jsonl"
"""Name of the file that `--record` appends to."""


def brec(
    test: Tests = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated. One of: {', '.join(BREC_GROUPS)}."),
    ] = None,
    num_hops: Hops = None,
    hash_name: Hash = None,
    d2c: D2C = None,
    root_mark: Mark = None,
    centroid: Centroid = None,
    context: Context = None,
    readout: Readout = None,
    max_memory: Memory = 2.0,
    data_dir: DataDir = None,
    record: Annotated[
        bool, typer.Option("--record", help=f"Append the counts to `{RESULTS}`.")
    ] = False,
    results: ResultsFolder = Path("results"),
    as_json: Json = False,
) -> None:
    """Count the pairs of BREC that each Weisfeiler-Leman (WL) test distinguishes.

    BREC has 400 pairs of graphs in seven groups; the file brec.npz must be in the data
    folder. The count of a test is exact, and is the largest count that a network with
    the power of the test can reach.

    Without options of tests, tests run with several radii and readouts, which may take
    half an hour on one core. With such options, each test runs once. The tests 3-wl,
    3-fwl and subgraph-1-wl take hours and run only if they are named with --test; 2-fwl
    is as powerful as 3-wl.
    """
    for name in group or ():
        check_choice("--group", name, BREC_GROUPS)
    options = given(
        num_hops=num_hops,
        hash=hash_name,
        d2c=d2c,
        root_mark=root_mark,
        centroid=centroid,
        context=context,
        readout=readout,
    )
    with stoppable_at_once():
        from gnnak.brec.data import load_brec
        from gnnak.cli.wl.brec_run import choose_contenders, count, table
        from gnnak.training.records.results import check_appendable

    contenders = choose_contenders(test or [], options)
    groups = load_brec(data_dir)
    groups = {name: groups[name] for name in group or groups}
    path = results / RESULTS if record else None
    if path is not None:
        check_appendable(path)
    records = count(groups, contenders, max_memory, path)
    if as_json:
        for each in records:
            typer.echo(json.dumps(each))
        return
    console = Console()
    console.print(table(records))
    for each in records:
        if each["note"]:
            line = f"{each['contender']}: {each['note']}"
            console.print(line, markup=False, highlight=False)
