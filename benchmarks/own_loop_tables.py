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
    """Render the times of the newest run of `benchmarks.own_loop` on a GPU.

    The time is that of the fastest epoch. The other columns are the ratio to the loop
    with PyG's loader, the median of the run's epochs, and the smallest and the largest
    fastest epoch of all runs whose records name the device: these runs were on hosts
    of different speed, with several versions of gnnak.
    """
    found: dict[tuple[str, str], list[Record]] = {}
    for record in read_records(RESULTS / "own_loop.jsonl"):
        if _is_on_gpu(record) and not record.get("ddp"):
            found.setdefault((record["model"], record["loop"]), []).append(record)
    rows = [
        [
            f"{kind}, {_short(loop)}",
            f"{records[-1]['seconds']:.3f} s{_memory(records[-1])}",
            f"{records[-1]['ratio']:.2f}",
            _median(records[-1]),
            _range(records),
            GOALS.get((kind, loop), ""),
        ]
        for (kind, loop), records in found.items()
    ]
    header = ["model, loop", "an epoch", "ratio", "median, s", "range, s", "goal"]
    return markdown(header, rows)


def ddp() -> str:
    """Render the newest times of a `TrainingStep` with and without DDP, one process."""
    found = {
        (record["model"], record["loop"]): record
        for record in read_records(RESULTS / "own_loop.jsonl")
        if _is_on_gpu(record) and record.get("ddp") == "nccl"
    }
    rows = [
        [f"{kind}, {_short(loop)}", f"{r['seconds']:.3f} s", f"{r['ratio']:.2f}"]
        for (kind, loop), r in found.items()
    ]
    return markdown(["model, loop", "an epoch", "ratio"], rows)


def _is_on_gpu(record: Record) -> bool:
    return record["kind"] == "own-loop" and record.get("device") != "cpu"


def _short(loop: str) -> str:
    """Shorten the name of a loop: `TrainingStep` is only measured with our loader."""
    return loop.removeprefix("GraphLoader + ").removesuffix(" autocast")


def _median(record: Record) -> str:
    """Return the median time of an epoch as text; older records do not have it."""
    return f"{record['median']:.2f}" if "median" in record else ""


def _range(records: list[Record]) -> str:
    """Return the shortest and the longest time of runs whose records name the device.

    The times are in seconds. Records without a device are of older versions.
    """
    times = [record["seconds"] for record in records if "device" in record]
    return f"{min(times):.3f}–{max(times):.3f}" if times else ""  # noqa: RUF001


def _memory(record: Record) -> str:
    """Return the peak memory as text; no text if it was not measured in full.

    Records without a device are of older versions, which did not measure the memory of
    captured CUDA graphs.
    """
    if "device" not in record and "TrainingStep" in record["loop"]:
        return ""
    return f", {record['peak_mb']:.0f} MB"


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
        pair = [found.get((name, uplifted)) for uplifted in (False, True)]
        rows.append([f"`{name}`", *map(_cell, pair)])
    return markdown(["conv or model", "plain", "uplifted"], rows)


def _cell(record: Record | None) -> str:
    """Say whether the steps of a model were captured, and if not, why."""
    if record is None:
        return "not run"
    return "yes" if record["captured"] else f"no: {record['reason'].rstrip('.')}"
