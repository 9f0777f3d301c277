import pytest

from benchmarks import goals
from benchmarks.gpu import shown
from benchmarks.gpu_data import repeated
from tests.training.small import triangles

RECORD = {
    "kind": "bench",
    "cell": goals.ROWS["zinc-ak"].config.cell(),
    "accelerator": "cuda",
    "commit": "a1b2c3d",
    "device": "abacus",
    "fast": True,
    "recompute": False,
    "ratio": 4.04,
    "seconds": {"epoch": 0.314, "forward": 0.2},
    "peak_memory_mb": 1612.3,
    "graphs": 1280,
    "graphs_an_epoch": 10_000,
    "graphs_per_second": 31_847.0,
    "kernels": {"share": 0.91},
}


def line(title: str, *records: dict) -> list[str]:
    return next(line for line in goals.lines(records) if line[0] == title)


def test_lines_put_the_newest_record_on_a_gpu_beside_the_goal():
    old = RECORD | {"seconds": {"epoch": 9.0}}
    assert line("ZINC, GIN-AK+", old, RECORD) == [
        "ZINC, GIN-AK+",
        "4.7 s, 1 679 MB",
        "0.25 s, 600 MB",
        "0.314 s, 1 612 MB",
        "4.0 x",
        "91%",
        "abacus, 1 280 of 10 000 graphs, scaled",
        "a1b2c3d",
    ]


@pytest.mark.parametrize(
    "other", [{"accelerator": "cpu"}, {"fast": False}, {"kind": "growth"}]
)
def test_lines_of_what_was_not_measured_are_blank(other):
    assert line("ZINC, GIN-AK+", RECORD | other)[3:] == [""] * 5


def test_lines_leave_out_what_a_record_does_not_know():
    whole = {"graphs": 10_000, "ratio": None, "kernels": None}
    assert line("ZINC, GIN-AK+", RECORD | whole)[4:7] == ["", "", "abacus"]


def test_lines_tell_recomputed_rows_apart():
    cell, recompute = goals.ROWS["cifar-pna-recompute"].key
    record = RECORD | {"cell": cell, "recompute": recompute}
    assert line("CIFAR10 (2 hops), PNA*-AK+, recomputed", record)[6].endswith(
        "recomputed"
    )
    assert line("CIFAR10 (2 hops), PNA*-AK+", record)[3] == ""


def test_rows_are_different_runs():
    assert len({row.key for row in goals.ROWS.values()}) == len(goals.ROWS)


def test_shown_is_a_line():
    told = shown(RECORD | {"row": "zinc-ak"})
    assert "0.314 s" in told
    assert "plain/fast 4.04" in told


def test_repeated_fills_every_part():
    dataset = triangles(8)
    large = repeated(dataset, (20, 3, 2)).check()
    assert large.split is not None
    assert large.split.bincount().tolist() == [20, 3, 2]
    assert "16 graphs repeated" in large.info.source
    assert repeated(dataset, (8, 4, 4)) is dataset
