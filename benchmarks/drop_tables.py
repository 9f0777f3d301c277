"""Render the Markdown tables about SubgraphDrop of docs/.

SubgraphDrop samples subgraphs until every node is in at least R of them; R is the
redundancy. The tables show how many subgraphs are sampled, how much time and memory a
training step takes, and the test error.
"""

from benchmarks.markdown import RESULTS, markdown
from benchmarks.subgraph_drop import RULES
from gnnak.models.factory import parse_name
from gnnak.training.records.results import Record, read_records

PUBLISHED_SHARES = {
    ("min-set-cover", 1): 0.15,
    ("min-set-cover", 3): 0.41,
    ("min-set-cover", 5): 0.71,
    ("farthest-lowest", 1): 0.19,
    ("farthest-lowest", 2): 0.41,
    ("farthest-lowest", 3): 0.66,
    ("farthest-lowest", 5): 0.94,
}
"""Share of the roots that the code of the paper's authors samples on ZINC with 3-hop
egonets, by strategy and redundancy R."""


def _drops() -> list[Record]:
    """Return the newest JSON record for each data set, device, strategy and R."""
    records = read_records(RESULTS / "subgraph_drop.jsonl")
    keys = ("case", "device", "strategy", "min_coverage")
    return list({tuple(r[k] for k in keys): r for r in records}.values())


def _drop_row(record: Record) -> list[str]:
    seconds, memory = record["step_seconds"], record["step_mb"]
    sampling = record["plan_seconds"] + record["draw_seconds"]
    return [
        f"{record['share']:.0%}",
        f"{record['coverage']:.1f}",
        f"{1e3 * sampling:.0f} ms",
        f"{_milliseconds(seconds['drop'])} / {_milliseconds(seconds['full'])} ms",
        f"{seconds['drop'] / seconds['full']:.2f}",
        f"{memory['drop'] / memory['full']:.2f}",
    ]


def _milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds, with one decimal if below 10 ms."""
    return f"{1e3 * seconds:.{1 if seconds < 0.01 else 0}f}"


DROP_HEADER = [
    "sampled",
    "mean coverage",
    "sampling time",
    "step / full step",
    "time ratio",
    "memory ratio",
]
"""Titles of the columns that `_drop_row` fills; a full step uses all subgraphs."""


def drop_short() -> str:
    """Render time and memory of a training step with R = 3, relative to a full step.

    A full step uses all subgraphs.
    """
    rows = [
        [f"{r['case']}, {r['device']}", r["strategy"], *_drop_row(r)]
        for r in _drops()
        if r["min_coverage"] == 3
    ]
    return markdown(["data, device (R = 3)", "strategy", *DROP_HEADER], rows)


def drop_long() -> str:
    """Render time and memory of a training step for every R, relative to a full step.

    A full step uses all subgraphs.
    """
    rows = [
        [
            f"{r['case']}, {r['device']}",
            r["strategy"],
            str(r["min_coverage"]),
            *_drop_row(r),
        ]
        for r in _drops()
    ]
    return markdown(["data, device", "strategy", "R", *DROP_HEADER], rows)


def drop_shares() -> str:
    """Render the share of sampled roots on ZINC, by strategy and redundancy R.

    The share of the published code is in brackets.
    """
    shares = {
        (r["strategy"], r["min_coverage"]): r["share"]
        for r in _drops()
        if r["case"] == "ZINC molecules" and r["real"]
    }
    rows = []
    for strategy in RULES:
        cells = []
        for wanted in range(1, 6):
            ours = shares.get((strategy, wanted))
            theirs = PUBLISHED_SHARES.get((strategy, wanted))
            cell = "" if ours is None else f"{ours:.0%}"
            cells.append(cell if theirs is None else f"{cell} ({theirs:.0%})")
        rows.append([strategy, *cells])
    return markdown(["sampled (published)", *(f"R = {r}" for r in range(1, 6))], rows)


def drop_quality() -> str:
    """Render test errors of models trained on all subgraphs and with SubgraphDrop."""
    runs: dict[tuple, dict[bool, Record]] = {}
    for record in read_records(RESULTS / "drop_quality.jsonl"):
        model = parse_name(record["model"]).unsampled_name
        key = (record["target"], model, record["epochs"], record["seed"])
        key += (record["device"],)
        runs.setdefault(key, {})[record["drop"] is not None] = record
    rows = []
    for (target, model, epochs, *_), pair in runs.items():
        if len(pair) < 2:
            continue
        full, few = pair[False]["test_mae"], pair[True]["test_mae"]
        change = f"{few / full - 1:+.0%}"
        rows.append([target, model, str(epochs), f"{full:.4f}", f"{few:.4f}", change])
    header = [
        "task",
        "model",
        "epochs",
        "error, all subgraphs",
        "error, SubgraphDrop (R = 3)",
        "change",
    ]
    return markdown(header, rows)
