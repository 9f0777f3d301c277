"""The values that records must have, so that tables and reports can read them.

A schema maps the name of a value, such as `config.model.name`, to a function that
returns whether a value is valid. A value that is missing counts as None.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gnnak.errors import OptionError
from gnnak.models.factory import parse_name

Check = Callable[[Any], bool]
Schema = dict[str, Check]
LARGEST = 1e300
"""Numbers whose absolute value is this large or larger are not valid."""
NUMBERS = {int, float}
"""The types of numbers in JSON."""


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind)


is_text, is_flag, is_group = (partial(_is_a, kind) for kind in (str, bool, dict))
"""Three functions that return whether a value is a string, a bool or a dict."""


def is_number(value: Any) -> bool:
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return whole and -LARGEST < value < LARGEST


def is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def is_count(value: Any) -> bool:
    return is_number(value) and isinstance(value, int) and value >= 0


def is_curve(value: Any) -> bool:
    if not isinstance(value, list) or not value or not set(map(type, value)) <= NUMBERS:
        return False
    return is_number(min(value)) and is_number(max(value))


def is_model(value: Any) -> bool:
    try:
        return is_text(value) and bool(parse_name(value))
    except OptionError:
        return False


def is_sizes(value: Any) -> bool:
    """Return whether a value is a text of whole numbers, such as "10 / 5 / 5"."""
    return is_text(value) and all(part.strip().isdecimal() for part in value.split("/"))


def optional(check: Check) -> Check:
    """Return a check that also allows None, and thus a missing value."""
    return lambda value: value is None or check(value)


COMMON: Schema = {"versions": optional(is_group)}
"""Values that records of every kind may have."""
CONFIG: Schema = {
    "config.data": is_group,
    "config.data.name": is_text,
    "config.data.target": optional(is_text),
    "config.data.protocol": is_text,
    "config.model": is_group,
    "config.model.name": is_text,
    "config.train": is_group,
    "config.train.epochs": is_count,
}
"""Options that every record with a config must have."""
RUN: Schema = CONFIG | {
    "key": optional(is_text),
    "experiment": optional(is_text),
    "hash": is_text,
    "cell": is_text,
    "seed": is_count,
    "fold": optional(is_count),
    "protocol": is_text,
    "metric": is_text,
    "lower_is_better": is_flag,
    "scores.validation": is_number,
    "scores.test": optional(is_number),
    "best_epoch": is_count,
    "epochs": is_positive,
    "curves.validation": is_curve,
    "seconds.data": optional(is_number),
    "seconds.train": is_number,
    "seconds.evaluation": optional(is_number),
    "seconds.total": is_number,
    "seconds.start": optional(is_number),
    "peak_memory_mb.train": is_number,
    "peak_memory_mb.evaluation": optional(is_number),
    "jobs": optional(is_positive),
}
"""Schema of a training run; the test score is None if it is undefined."""
COST: Schema = CONFIG | {
    "config.model.name": is_model,
    "config.model.drop.min_coverage": is_number,
    "config.model.subgraphs.kind": optional(is_text),
    "config.model.subgraphs.num_hops": is_number,
    "device": is_text,
    "fast": is_flag,
    "graphs_per_second": is_positive,
    "peak_memory_mb": optional(is_number),
}
DATASET: Schema = {
    "name": is_text,
    "graphs": is_sizes,
    "nodes": is_number,
    "edges": is_number,
    "outputs": is_number,
}
KINDS: Mapping[str, Schema] = {
    "run": RUN,
    "bench": COST | {"seconds.epoch": is_number},
    "growth": COST | {"what": is_text, "value": is_number},
    "dataset": DATASET,
}
"""The schema of each kind of record; records of other kinds are not checked."""
DROP: Schema = {
    "case": is_text,
    "device": is_text,
    "strategy": is_text,
    "min_coverage": is_number,
    "share": is_number,
    "step_seconds.drop": is_number,
    "step_seconds.full": is_positive,
    "step_mb.drop": is_number,
    "step_mb.full": is_positive,
}
"""Schema of the time and memory of a training step with and without SubgraphDrop."""
QUALITY: Schema = {
    "model": is_model,
    "target": is_text,
    "epochs": is_count,
    "seed": is_count,
    "device": optional(is_text),
    "test_mae": is_positive,
}
"""Schema of the test error of a run with or without SubgraphDrop."""
EXTRACTION: Schema = {
    "case": is_text,
    "seconds.gnnak": is_positive,
    "seconds.pyg": optional(is_number),
}
"""Schema of the time that gnnak and PyG take to extract egonets."""


def problem(record: Mapping[str, Any], schema: Schema | None = None) -> str:
    """Return the first error of a record, such as "lacks seed"; "" if it is valid."""
    kind = record.get("kind")
    by_kind = KINDS.get(kind, {}) if isinstance(kind, str) else {}
    for name, is_valid in (COMMON | by_kind | (schema or {})).items():
        value = _value(record, name)
        if not is_valid(value):
            return f"lacks {name}" if value is None else f"has a wrong {name}"
    return ""


def _value(record: Any, name: str) -> Any:
    for key in name.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(key)
    return record
