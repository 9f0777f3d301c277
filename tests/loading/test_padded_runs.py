"""Whole runs whose batches are padded, against the same runs without padding."""

from itertools import product

import pytest

from gnnak.loading.items import Item
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import Machine
from gnnak.training.run import run
from tests.training.small import edge_counts, small_config, triangles, well_joined


@pytest.mark.parametrize(
    ("model", "make"),
    [
        *product(["gin-ak+", "gin-ak+-s", "gin"], [edge_counts, well_joined]),
        *(
            pytest.param(f"{name}-gin", edge_counts, marks=pytest.mark.heavy)
            for name in (
                "ds",
                "dss",
                "sun",
                "id",
                "ego",
                "sswl+",
                "l2fgnn",
                "nested",
                "id-fast",
                "khop",
            )
        ),
        pytest.param("l2fgnn-gin none", edge_counts, marks=pytest.mark.heavy),
        pytest.param("gin-ak+ pairs", edge_counts, marks=pytest.mark.heavy),
    ],
)
def test_padded_run_equals_the_run_without_padding(model, make, tmp_path, monkeypatch):
    data = make()
    model, _, other = model.partition(" ")
    pairs = {"model__pairs": ("distance", "rrwp", "distance-counts")}
    config = small_config(
        data__name=data.info.name,
        model__name=model,
        model__family__norm="none" if other == "none" else "batch",
        **pairs if other == "pairs" else {},
        train__batch_size=5,
        train__epochs=2,
        train__precision="64",
        train__loss="weighted-cross-entropy" if data.info.node_task else None,
    )
    plain = run(config, data, tmp_path / "plain")
    steps, seen = GraphTask.training_step, []

    def watched(task: GraphTask, item: Item, index: int):
        seen.append(item.shape is not None)
        return steps(task, item, index)

    monkeypatch.setattr(GraphTask, "training_step", watched)
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    padded = run(config, data, tmp_path / "padded")
    assert seen == [True] * 3 * config.train.epochs
    assert padded["scores"] == pytest.approx(plain["scores"], abs=1e-8)
    losses = (record["curves"]["train_loss"] for record in (plain, padded))
    assert next(losses) == pytest.approx(next(losses), abs=1e-5)


def test_nothing_is_padded_if_the_network_extracts(tmp_path, monkeypatch):
    config = small_config(model__name="gin-ak+-s", train__epochs=1)
    steps, seen = GraphTask.training_step, []

    def watched(task: GraphTask, item: Item, index: int):
        seen.append((item.shape, item.subgraphs))
        return steps(task, item, index)

    monkeypatch.setattr(GraphTask, "training_step", watched)
    source = "gnnak.loading.assembler.cache_if_small"
    monkeypatch.setattr(source, lambda *_: None)
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    run(config, triangles(), tmp_path)
    assert seen == [(None, None)] * 2
