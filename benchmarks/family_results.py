"""Render test errors and BREC counts of subgraph GNNs, next to those of the papers."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

from benchmarks.family import MODELS
from benchmarks.markdown import RESULTS, markdown
from gnnak.brec.data import GROUPS
from gnnak.brec.records import ceiling_of, ceiling_range, recorded_counts
from gnnak.brec.run import PUBLISHED as PUBLISHED_COUNTS
from gnnak.brec.trial import TrialOptions, trial_options
from gnnak.models.factory import parse_name
from gnnak.training.config.experiment import load_experiment, read_only
from gnnak.training.config.options import change, shown
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import Record, read_records

COUNTING = ("triangle", "tailed-triangle", "star", "4-cycle")
"""The tasks of the counting data set."""
PUBLISHED: dict[str, dict[str, float]] = {
    "gin-ak+": {
        "zinc": 0.080,
        "triangle": 0.0123,
        "tailed-triangle": 0.0112,
        "star": 0.0150,
        "4-cycle": 0.0126,
    },
    "nested-gin": {"zinc": 0.112},
    "ds-gin": {"zinc": 0.116},
    "dss-gin": {"zinc": 0.100},
    "sun-gin": {
        "zinc": 0.083,
        "triangle": 0.0079,
        "tailed-triangle": 0.0080,
        "star": 0.0064,
        "4-cycle": 0.0105,
    },
    "sswl-gin": {
        "zinc": 0.082,
        "triangle": 0.0098,
        "tailed-triangle": 0.0091,
        "star": 0.0089,
        "4-cycle": 0.0107,
    },
    "sswl+-gin": {
        "zinc": 0.070,
        "triangle": 0.0059,
        "tailed-triangle": 0.0063,
        "star": 0.0077,
        "4-cycle": 0.0075,
    },
    "l2fgnn-gin": {"zinc": 0.064, "triangle": 0.0030, "4-cycle": 0.0041},
}
"""Test errors (MAE) in the papers, by model, then by data set or counting task."""
SEED = "100"
"""The seed of BREC whose counts are shown."""
BREC_NAMES = {
    "nested": "NGNN",
    "ds": "DS-GNN",
    "dss": "DSS-GNN",
    "sun": "SUN",
    "sswl+": "SSWL+",
}
"""For subgraph GNNs, their names in the BREC paper."""


def family_results() -> str:
    """Render errors on ZINC and counting, and BREC counts: ours (and the papers')."""
    runs, brec = (read_records(RESULTS / f"{name}.jsonl") for name in ("runs", "brec"))
    return markdown(["model", "ZINC", *COUNTING, "BREC"], result_lines(runs, brec))


def result_lines(
    records: Sequence[Record], brec: Sequence[Record] = ()
) -> list[list[str]]:
    """Return the lines of `family_results`: one per model with a number.

    Args:
        records: Records of runs. Only runs with the options of `gnnak train` count; the
            mean over their seeds is shown.
        brec: Records of `gnnak brec`, of which those count that `brec_lines` shows.
    """
    counted = {model: r for (model, is_random), r in _newest(brec) if not is_random}
    lines = []
    for model in (*MODELS, "ppgn-ak+"):
        known = PUBLISHED.get(model, {})
        cells = [
            _cell(_errors(records, model, name), known.get(name), digits)
            for name, digits in (("zinc", 3), *((task, 4) for task in COUNTING))
        ]
        ours = _count(counted[model], GROUPS) if model in counted else ""
        published = PUBLISHED_COUNTS.get(_brec_name(model))
        cells.append(_beside(ours, "" if published is None else str(published)))
        if any(cells):
            lines.append([f"`{model}`", *cells])
    return lines


def _errors(records: Sequence[Record], model: str, name: str) -> list[float]:
    """Return the test error of a model on a data set or counting task for each seed."""
    config = load_experiment("counting" if name in COUNTING else name).config_for(model)
    if name in COUNTING:
        config = replace(config, data=replace(config.data, target=name))
    cell = config.cell()
    found = {r["seed"]: r["scores"]["test"] for r in records if r["cell"] == cell}
    return list(found.values())


def _cell(errors: list[float], published: float | None, digits: int) -> str:
    """Return our mean error and number of seeds, then the paper's error."""
    ours = f"{fmean(errors):.{digits}f}" if errors else ""
    if len(errors) > 1:
        ours += f", {len(errors)} seeds"
    return _beside(ours, "" if published is None else f"{published:.{digits}f}")


def _beside(ours: str, published: str) -> str:
    return f"{ours} ({published})".strip() if published else ours


TRIED = ("train.", "model.pairs", "model.dropout", "model.family.")
"""Beginnings of the names of options that `zinc_options` compares."""


def zinc_options() -> str:
    """Render errors on ZINC with other options of training or of node pairs."""
    records = read_records(RESULTS / "runs.jsonl")
    header = ["model", "options", "weights", "runs", "validation MAE", "test MAE"]
    return markdown(header, option_lines(records))


def option_lines(records: Sequence[Record]) -> list[list[str]]:
    """Return the lines of `zinc_options`: for each network, first its usual options."""
    entry, errors = load_experiment("zinc"), defaultdict(list)
    for record in records:
        if record["config"]["data"]["name"] != "zinc":
            continue
        config = change(RunConfig(), record["config"])
        usual, own = entry.config_for(config.model.name), read_only(config)
        changed: dict[str, Any] = {}
        if record["cell"] != usual.cell():
            start = read_only(usual) | {"train.seed": config.train.seed}
            changed = {k: v for k, v in own.items() if v != start[k]}
        if all(name.startswith(TRIED) for name in changed):
            told = ", ".join(f"`{k}={shown(v)}`" for k, v in changed.items())
            errors[config.model.name, told].append(record)
    tried = {model for model, told in errors if told}
    return [
        [
            f"`{model}`",
            told or "as usual",
            f"{runs[0]['parameters']:,}",
            str(len(runs)),
            *(
                f"{fmean(run['scores'][part] for run in runs):.4f}"
                for part in ("validation", "test")
            ),
        ]
        for (model, told), runs in sorted(errors.items())
        if model in tried
    ]


def brec_counts() -> str:
    """Render how many pairs of BREC trained networks distinguish, by group."""
    header = ["model", *GROUPS, "all", "ceiling", "BREC paper"]
    return markdown(header, brec_lines(read_records(RESULTS / "brec.jsonl")))


def _is_usual(record: Record) -> bool:
    """Return whether a record of `gnnak brec` has the usual options and seed."""
    options = record["options"]
    random = None if options["epochs"] else 0
    usual = json.loads(
        json.dumps(asdict(trial_options(options["model"], epochs=random)))
    )
    return options == usual and SEED in record["seeds"]


def _newest(records: Sequence[Record]) -> list[tuple[tuple[str, bool], Record]]:
    """Return a record of each model, trained or random, with the newest of all groups.

    The groups may have been run by separate commands.
    """
    found: dict[tuple[str, bool], Record] = {}
    for record in filter(_is_usual, records):
        options = record["options"]
        place = options["model"], options["epochs"] == 0
        counts = found.get(place, {"seeds": {SEED: {}}})["seeds"][SEED]
        counts = counts | record["seeds"][SEED]
        found[place] = record | {"seeds": {SEED: counts}}
    return [(k, r) for k, r in found.items() if set(GROUPS) <= set(r["seeds"][SEED])]


def _count(record: Record, groups: Sequence[str]) -> str:
    """Return the count as released, and the count with the factor q, if it differs."""
    rows = [record["seeds"][SEED][group] for group in groups]
    both = [sum(row[name] for row in rows) for name in ("released", "corrected")]
    return " / ".join(map(str, dict.fromkeys(both)))


def _ceiling(record: Record) -> str:
    """Return the stored count of the test that bounds the network; "-" if unknown."""
    test = ceiling_of(TrialOptions(**record["options"]))
    if test is None:
        return "-"
    counts = recorded_counts(test, RESULTS / "wl_brec.jsonl")
    known = [counts.get(group, (0, size)) for group, (_, size) in GROUPS.items()]
    return ceiling_range(*map(sum, zip(*known, strict=True)))


def _brec_name(model: str) -> str:
    member = parse_name(model).member or ""
    return BREC_NAMES.get(member, "GNN-AK" if model == "gin-ak+" else "")


def brec_lines(records: Sequence[Record]) -> list[list[str]]:
    """Return the lines of `brec_counts`: one for the newest record of each model.

    Networks with random weights have lines of their own.

    The count with the value times q is added if it differs from the count as released.

    Args:
        records: Records of `gnnak brec`. Only those with seed 100 and the options of
            the BREC paper count. The groups may be in several records of a model.
    """
    lines = []
    for (model, is_random), record in _newest(records):
        cells = [_count(record, groups) for groups in (*([g] for g in GROUPS), GROUPS)]
        published = record["published"].get(_brec_name(model))
        shown = "-" if published is None else str(published)
        label = f"`{model}`" + (", random weights" if is_random else "")
        lines.append([label, *cells, _ceiling(record), "-" if is_random else shown])
    return lines
