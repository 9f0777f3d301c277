"""Scores of trained networks: on the test set of a run, and on new labelled graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torchmetrics import Metric

from gnnak.datasets.own.load import load_labelled
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.record import DatasetInfo, check_metric, lower_is_better
from gnnak.graphs.readers.rows import BadRow
from gnnak.training.metrics import TargetMean, make_metric, why_undefined
from gnnak.training.predictions import BATCH_SIZE, Predictor, column_names, raw_outputs
from gnnak.typing import check_count


@dataclass(frozen=True)
class Evaluation:
    """The score of a trained model on labelled graphs."""

    metric: str
    """Name of the metric, such as `mae`."""
    score: float
    """The score; with several targets, their mean score. NaN if it is undefined."""
    by_target: Mapping[str, float]
    """Maps each target or label to its score; undefined scores are NaN. Empty for a
    single target, and for the task `classification`. For `std-mae`, these are mean
    absolute errors, in the units of the targets."""
    num_rows: int
    """Number of scored graphs or, in node tasks, of scored nodes."""
    undefined: str | None = None
    """Why the score is undefined; None if it is defined."""
    bad: tuple[BadRow, ...] = ()
    """The rows that the option `skip_bad` left out, with the reasons."""
    part: str | None = None
    """The scored part of the data, such as `test`; None if all data were scored."""

    @classmethod
    def of(
        cls, metric: Metric, info: DatasetInfo, num_rows: int, part: str | None
    ) -> Evaluation:
        """Compute the score from `metric`, which has all outputs for `part`."""
        score, by_target = float(metric.compute()), {}
        if isinstance(metric, TargetMean) and info.num_outputs > 1:
            scores = metric.by_target.tolist()
            by_target = dict(zip(column_names(info), scores, strict=True))
        reason = None
        if not math.isfinite(score):
            reason = why_undefined(metric, info.metric, part or "given", score)
        return cls(info.metric, score, by_target, num_rows, reason, part=part)

    @property
    def lower_is_better(self) -> bool:
        """Whether lower scores are better, as for errors."""
        return lower_is_better(self.metric)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as values for JSON, with None for undefined scores."""
        return asdict(self) | {
            "score": _finite(self.score),
            "by_target": {name: _finite(s) for name, s in self.by_target.items()},
            "bad": [str(row) for row in self.bad],
        }


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def with_metric(info: DatasetInfo, name: str | None) -> DatasetInfo:
    """Return `info` with the metric `name`, or `info` itself if `name` is None."""
    if name is None or name == info.metric:
        return info
    check_metric(name, info.task)
    # All metrics can be computed for own data, only some for data sets of gnnak.
    return replace(info, metric=name, own_data=True)


def evaluate_labelled(
    model: Predictor, own: OwnData, graphs: Any, y: Any, batch_size: int | None = None
) -> Evaluation:
    """Score a model on new graphs. For the arguments, see `load_labelled`."""
    info = with_metric(model.info, own.metric)
    if batch_size is not None:
        check_count("batch_size", batch_size, least=1)
    fold = model.config.data.fold
    rows, targets, part = load_labelled(own, graphs, y, model.info, fold)
    outputs = raw_outputs(model, rows.store, batch_size or BATCH_SIZE).float()
    metric = make_metric(info)
    known = torch.ones(len(outputs), dtype=torch.bool)
    known[[row.number - 1 for row in targets.bad]] = False
    metric.update(outputs[known], targets.y[known])
    found = Evaluation.of(metric, info, int(known.sum()), part)
    return replace(found, bad=rows.bad)
