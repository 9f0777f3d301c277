"""Convert the description of a data set to plain values, and back.

Plain values are numbers, texts, lists and dicts, which a checkpoint or a JSON file can
store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_type_hints

from gnnak.datasets.metric_names import METRICS
from gnnak.datasets.record import DatasetInfo, Scaling
from gnnak.errors import OptionError
from gnnak.nn.features import Categorical, Continuous, Features, OneHot
from gnnak.training.config.options import converted, shown
from gnnak.typing import check_choice, check_count

FEATURES = ("node_features", "edge_features")
"""The fields that describe features."""


def plain_info(info: DatasetInfo) -> dict[str, Any]:
    """Convert a `DatasetInfo` to a dict of values that JSON can store.

    Categorical features become a list with the number of categories of each column,
    one-hot features become such a list in a dict with the key `one_hot`, and continuous
    features become the number of columns.
    """
    plain = asdict(info)
    for name in FEATURES:
        features = getattr(info, name)
        if isinstance(features, OneHot):
            plain[name] = {"one_hot": list(features.sizes)}
        elif isinstance(features, Categorical):
            plain[name] = list(features.sizes)
        else:
            plain[name] = None if features is None else features.channels
    return plain


def info_from_plain(plain: Mapping[str, Any]) -> DatasetInfo:
    """Convert the output of `plain_info` back, and check the type of every value.

    Fields that have a default may be missing, as in files of older versions.

    Raises:
        KeyError: If a field without a default is missing.
        OptionError: If a field is unknown, or a value has the wrong type.
    """
    hints = get_type_hints(DatasetInfo)
    known = {field.name for field in fields(DatasetInfo)}
    if unknown := plain.keys() - known:
        raise OptionError(f"unknown field {shown(sorted(unknown)[0])} of the data set.")
    values: dict[str, Any] = {name: _features(name, plain[name]) for name in FEATURES}
    for name, value in plain.items():
        if name == "scaling":
            values[name] = _scaling(value, plain["num_outputs"])
        elif name not in FEATURES:
            values[name] = converted(name, value, hints[name])
    info = DatasetInfo(**values)
    check_count("num_outputs", info.num_outputs, least=1)
    check_choice("metric", info.metric, tuple(METRICS))
    return info


def _features(name: str, value: Any) -> Features | None:
    if value is None and name == "edge_features":
        return None
    if isinstance(value, dict) and value.keys() == {"one_hot"}:
        return OneHot(converted(name, value["one_hot"], tuple[int, ...]))
    if isinstance(value, list | tuple):
        return Categorical(converted(name, value, tuple[int, ...]))
    return Continuous(converted(name, value, int))


def _scaling(value: Any, targets: int) -> Scaling | None:
    """Return the scaling of the targets, one mean and one deviation per target."""
    if value is None:
        return None
    numbers = [
        converted(f"scaling.{key}", value[key], tuple[float, ...])
        for key in ("mean", "deviation")
    ]
    if any(len(each) != targets for each in numbers):
        raise OptionError(f"scaling has other numbers than one per target, {targets}.")
    return Scaling(*numbers)
