import json

import pytest
import yaml
from typer.main import get_command

from gnnak.cli.bench import kernels_table
from gnnak.cli.program import app
from gnnak.training.records.results import read_records
from tests.cli.training import run
from tests.training.molecules import SMILES

SMALL = (
    *("--layers", "1", "--channels", "8"),
    *("--accelerator", "cpu", "--graphs", "8", "--epochs", "1"),
)


def bench(*arguments: str) -> str:
    """Run `gnnak bench triangles` with a small network, in the current folder."""
    return run("bench", "triangles", *SMALL, *arguments).stdout


@pytest.mark.heavy
def test_bench_shows_a_table_and_writes_nothing(place):
    shown = bench("--evaluation")
    for line in ("seconds an epoch", "forward", "of evaluation", "graphs a second"):
        assert line in shown
    assert "scaled from 8 to 200 training graphs" in shown
    assert "kernels" not in shown
    assert list(place.iterdir()) == []


def test_bench_json_is_the_record_it_writes(place):
    told = json.loads(bench("--json", "--record", "--model", "gin"))
    assert [told] == read_records(place / "results" / "bench.jsonl")
    assert told["config"]["model"]["name"] == "gin"
    assert told["fast"]


@pytest.mark.heavy
def test_bench_plain_and_compare(place):
    assert not json.loads(bench("--json", "--plain"))["fast"]
    fast, plain = map(json.loads, bench("--json", "--compare").splitlines())
    assert (fast["fast"], plain["fast"]) == (True, False)
    assert fast["ratio"] > 0


@pytest.mark.heavy
def test_bench_compare_says_that_without_a_gpu_there_is_one_path(place):
    assert "their ratio is noise" in bench("--compare")
    assert "their ratio is noise" not in bench()


@pytest.mark.heavy
def test_bench_grow_records_a_value_a_line(place):
    shown = bench("--grow", "hops", "--record")
    lines = (place / "results" / "bench.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [1, 2, 3, 4]
    assert "hops 4" in shown


def test_bench_says_that_without_a_gpu_there_are_no_kernels(place):
    told = run("bench", "triangles", *SMALL, "--profile", "--json").stderr
    assert "warning: --profile needs a GPU; here it has no effect." in told


def test_bench_takes_own_data_as_train_does(place):
    rows = "".join(f"{text};1;{i}\n" for i, text in enumerate(SMILES))
    (place / "m.csv").write_text(f"smiles;one;logp\n{rows}")
    sizes = ("--batch-size", "4", "--num-hops", "1", "--lr", "0.1", "--seed", "7")
    data = ("--target", "logp", "--metric", "r2", "--folds", "4", "--fold", "1")
    arguments = ("./m.csv", *sizes, *data, "--task", "regression", "--json")
    told = json.loads(run("bench", *arguments, *SMALL).stdout)
    shown = run("train", *arguments[:-1], "--show", *SMALL[:4], "--epochs", "60").stdout
    assert told["config"] == yaml.safe_load(shown)
    assert told["graphs"] == 8


def test_bench_has_the_options_of_train():
    ours, theirs = (
        {option for each in command.params for option in each.opts}
        for command in map(get_command(app).commands.get, ("bench", "train"))
    )
    of_training_alone = {
        *("--runs", "--devices", "--num-nodes", "--deterministic"),
        *("--tensorboard", "--resume", "--show", "--ray"),
    }
    assert theirs - ours == of_training_alone


def test_kernels_table_lists_the_longest_and_the_rest():
    top = [{"name": "matmul", "calls": 2.0, "microseconds": 40.0}]
    kernels = {"share": 0.5, "calls": 5.0, "microseconds": 100.0, "top": top}
    config = {"train": {"precision": "bf16"}}
    record = {"kind": "bench", "fast": True, "config": config, "kernels": kernels}
    table = kernels_table(record)
    assert "fast, bf16" in table.title
    columns = [list(column.cells) for column in table.columns]
    assert columns == [["matmul", "all others"], ["2", "3"], ["40", "60"]]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["zink"], "did you mean 'zinc'?"),
        (["triangles", "--grow", "edges"], "--grow is 'edges'; use one of: nodes,"),
        (["triangles", "--compare", "--plain"], "drop --plain or --grow"),
        (["triangles", "--graphs", "201"], "triangles has 200 training graphs"),
        (["triangles", "--graphs", "1"], "--graphs is 1; give a number of at least 2"),
        (["triangles", "--model", "gin", "--grow", "hops"], "no hops to vary"),
        (["triangles", "--set", "model.width=3"], "unknown option 'model.width'"),
    ],
)
def test_bench_answers_a_wrong_input_in_a_line(place, fails, arguments, answer):
    assert answer in fails("bench", *arguments, "--accelerator", "cpu")
    assert list(place.iterdir()) == []
