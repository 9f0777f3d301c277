from benchmarks.traffic import RATES, READ, TIME, WRITTEN, steps_of, summary

COLUMNS = ["ID", "Kernel Name", READ, WRITTEN, TIME, *RATES.values()]
KERNELS = [
    ["", "", "byte", "byte", "ns", "%", "%", "%", "%"],
    ["0", "void lgamma_kernel(float*)", "1", "1", "1", "0", "0", "0", "0"],
    ["1", "_messages", "3,000,000", "1000000", "2000", "80", "40", "20", "10"],
    ["2", "void at::native::fill<4>(int)", "0", "500000", "1000", "5", "5", "5", "5"],
    ["3", "_messages", "1000000", "1000000", "6000", "40", "40", "20", "30"],
    ["4", "void lgamma_kernel(float*)", "1", "1", "1", "0", "0", "0", "0"],
    ["5", "_pool", "7", "0", "500", "1", "1", "1", "1"],
]


def written() -> list[str]:
    rows = [",".join(f'"{cell}"' for cell in row) for row in [COLUMNS, *KERNELS]]
    return ["==PROF== Connected to process 7", *rows]


def test_steps_begin_after_a_marker():
    steps = [[k["Kernel Name"] for k in step] for step in steps_of(written())]
    assert steps[0] == ["_messages", "void at::native::fill<4>(int)", "_messages"]
    assert steps[1] == ["_pool"]


def test_summary_adds_launches_and_weights_rates_by_time():
    first = summary(next(steps_of(written())))
    assert (first["calls"], first["microseconds"], first["megabytes"]) == (3, 9.0, 6.5)
    messages, fill = first["kernels"]
    assert fill["name"] == "fill<4>"
    assert messages == {
        "name": "_messages",
        "calls": 2,
        "microseconds": 8.0,
        "megabytes": 6.0,
        "percent_of_peak": {
            "device memory": 50.0,
            "L2": 40.0,
            "L1": 20.0,
            "arithmetic": 25.0,
        },
    }
