"""Render the tables of docs/own-loop.md."""

from benchmarks.markdown import RESULTS, markdown
from gnnak.training.records.results import Record, read_records

GOALS = {
    ("plain", "GraphLoader + TrainingStep"): "0.12 s",
    ("uplifted", "PyG loader, plain loop"): "2.2 s, 800 MB",
    ("uplifted", "GraphLoader, plain loop"): "1.5 s",
    ("uplifted", "GraphLoader + TrainingStep"): "0.45 s, 700 MB",
    ("uplifted", "GraphLoader + TrainingStep, bf16 autocast"): "below float32",
}


def own_loop() -> str:
    """Render the times of the newest run of `benchmarks.own_loop` on a GPU."""
    found: dict[tuple[str, str], Record] = {}
    for record in read_records(RESULTS / "own_loop.jsonl"):
        if record["kind"] == "own-loop" and record["device"] == "cuda":
            found[record["model"], record["loop"]] = record
    rows = [
        [
            f"{kind}, {loop}",
            f"{r['seconds']:.3f} s, {r['peak_mb']:.0f} MB",
            f"{r['ratio']:.2f}",
            GOALS.get((kind, loop), ""),
        ]
        for (kind, loop), r in found.items()
    ]
    return markdown(["model, loop", "an epoch", "ratio", "goal"], rows)


def published_step() -> str:
    """Render the newest `benchmarks.published_step` of each model."""
    found: dict[str, Record] = {}
    for record in read_records(RESULTS / "own_loop.jsonl"):
        if record["kind"] == "published-step":
            found[record["model"]] = record
    rows = [
        [
            name,
            f"{r['ratio']:.2f}",
            f"{r['processor_ratio']:.2f}",
            "1.5",
        ]
        for name, r in found.items()
    ]
    return markdown(["model", "times faster", "by processor time", "goal"], rows)


def captured() -> str:
    """Render which convs and models the last `benchmarks.captured` captured."""
    found = {
        (record["name"], record["uplifted"]): record
        for record in read_records(RESULTS / "captured.jsonl")
    }
    names = list(dict.fromkeys(name for name, _ in found))
    rows = []
    for name in names:
        pair = [found[name, uplifted] for uplifted in (False, True)]
        cells = ["yes" if r["captured"] else f"no: {r['reason']}" for r in pair]
        rows.append([f"`{name}`", *cells])
    return markdown(["conv or model", "plain", "uplifted"], rows)
