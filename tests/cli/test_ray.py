"""Commands with `--ray`: runs on a cluster of three nodes, all on this machine."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.training import records
from tests.training.molecules import SMILES

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SWEEP = "sweep triangles --over lr=1e-2,3e-3,1e-3 --seeds 4 --epochs 3 --graphs 60 "
SWEEP += "--layers 1 --channels 8 --accelerator cpu"
TRAIN = "train triangles --epochs 150 --graphs 60 --layers 1 --channels 8 "
TRAIN += "--accelerator cpu --set model.dropout=0.2"
ROWS = int(os.environ.get("GNNAK_RAY_ROWS", "20000"))
"""Number of molecules that are predicted for."""
SMALL = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 10**8}
"""The size of a node."""


def start(folder: Path, command: str) -> subprocess.Popen:
    """Start a command of `gnnak` in a folder that is created."""
    folder.mkdir()
    path = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "gnnak.cli", *command.split()],
        cwd=folder,
        env=os.environ | path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen, code: int = 0) -> str:
    """Wait for a command; return what it wrote to stderr."""
    _, told = process.communicate(timeout=500)
    assert process.returncode == code, told
    return told


def wait_until(condition, process: subprocess.Popen) -> None:
    """Wait until a condition is true while a command runs; end the command if not."""
    stop = time.monotonic() + 300
    while not condition():
        if process.poll() is not None or time.monotonic() > stop:
            process.kill()
            pytest.fail(process.communicate()[1])
        time.sleep(0.05)


@pytest.fixture
def cluster(monkeypatch):
    """Start a cluster of three nodes with one CPU each; end it after the test."""
    import ray.cluster_utils

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args=SMALL)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    cluster.nodes = [cluster.add_node(**SMALL) for _ in range(2)]
    yield cluster
    cluster.shutdown()


def test_runs_on_a_cluster_whose_node_is_killed_are_each_recorded_once(
    cluster, tmp_path
):
    with_ray, alone = tmp_path / "ray", tmp_path / "alone"
    process = start(with_ray, f"{SWEEP} --ray {cluster.address}")
    wait_until(lambda: len(records(with_ray)) >= 3, process)
    cluster.remove_node(cluster.nodes[0], allow_graceful=False)
    told = end(process)
    assert told.count("test accuracy") == 12
    assert "failed" not in told
    end(start(alone, SWEEP))
    expected = {each["hash"]: each for each in records(alone)}
    found = records(with_ray)
    assert Counter(each["hash"] for each in found) == dict.fromkeys(expected, 1)
    for each in found:
        for name in ("scores", "curves", "best_epoch", "seed"):
            assert each[name] == expected[each["hash"]][name]
    assert list(with_ray.glob("runs/.ray*")) == []
    assert list(with_ray.glob("runs/*/runs.jsonl")) == []


def test_runs_that_are_stopped_write_checkpoints(cluster, tmp_path):
    folder, command = tmp_path / "ray", SWEEP.replace("--epochs 3", "--epochs 999")
    process = start(folder, f"{command} --ray {cluster.address}")
    wait_until(lambda: len(list(folder.glob("runs/*/last.ckpt"))) == 3, process)
    before = time.time()
    process.send_signal(signal.SIGINT)
    told = end(process, code=130)
    assert told == "error: stopped by SIGINT; give the same command to go on.\n"
    checkpoints = list(folder.glob("runs/*/last.ckpt"))
    assert len(checkpoints) == 3
    assert min(path.stat().st_mtime for path in checkpoints) >= before
    assert list(folder.glob("runs/*/run.lock")) == []


def test_predictions_on_a_cluster_whose_node_is_killed_are_those_of_one_process(
    cluster, checkpoint, tmp_path
):
    numbers, table = random.Random(0), tmp_path / "new.csv"
    rows = [f"{i},{numbers.choice([*SMILES, 'C('])}\n" for i in range(ROWS)]
    table.write_text("id,smiles\n" + "".join(rows))
    command = f"predict {checkpoint} {table} --accelerator cpu -o out.csv"
    with_ray, alone = tmp_path / "ray", tmp_path / "alone"
    process = start(with_ray, f"{command} --ray {cluster.address}")
    wait_until((with_ray / "out.csv.part.json").exists, process)
    cluster.remove_node(cluster.nodes[0], allow_graceful=False)
    assert f"{ROWS} rows" in end(process)
    end(start(alone, command))
    assert (with_ray / "out.csv").read_bytes() == (alone / "out.csv").read_bytes()
    assert len((alone / "out.csv").read_text().splitlines()) == ROWS + 1


def test_predictions_on_a_cluster_that_are_stopped_are_resumed_without_it(
    cluster, checkpoint, tmp_path
):
    table, folder = tmp_path / "new.smi", tmp_path / "ray"
    table.write_text("\n".join(SMILES * 500))
    command = f"predict {checkpoint} {table} --accelerator cpu -o ../out.csv"
    process = start(folder, f"{command} --ray {cluster.address}")
    wait_until((tmp_path / "out.csv.part.json").exists, process)
    process.send_signal(signal.SIGINT)
    told = end(process, code=130)
    assert told == "error: stopped by SIGINT; go on with --resume.\n"
    end(start(tmp_path / "rest", f"{command} --resume"))
    whole = command.replace("out.csv", "whole.csv")
    end(start(tmp_path / "whole", whole))
    found = [tmp_path / name for name in ("out.csv", "whole.csv")]
    assert found[0].read_bytes() == found[1].read_bytes()


def test_an_error_in_a_worker_is_one_sentence(cluster, checkpoint, tmp_path):
    (tmp_path / "new.csv").write_text("smiles\n1\n2\n")
    command = f"predict {checkpoint} ../new.csv --accelerator cpu -o out.csv"
    told = end(start(tmp_path / "ray", f"{command} --ray {cluster.address}"), code=2)
    assert told.startswith("error: column smiles of new.csv has numbers, such as 1")
    assert len(told.splitlines()) == 1


def workers(folder: Path) -> dict[int, int]:
    """Return the process ids of workers that train in a folder, and of their nodes."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                status = (process / "status").read_text()
                if status.startswith("Name:\tray::"):
                    node = status.partition("PPid:")[2].split()[0]
                    found[int(process.name)] = int(node)
    return found


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs Linux")
def test_training_whose_workers_are_killed_has_the_record_of_an_undisturbed_run(
    cluster, tmp_path
):
    with_ray, alone = tmp_path / "ray", tmp_path / "alone"
    process, saved = start(with_ray, f"{TRAIN} --ray 2"), 0

    def is_saved():
        last = [path.stat().st_mtime_ns for path in with_ray.glob("runs/*/last.ckpt")]
        return max(last, default=0) > saved

    wait_until(is_saved, process)
    saved = time.time_ns()
    killed = min(workers(with_ray))
    os.kill(killed, signal.SIGKILL)
    wait_until(is_saved, process)
    nodes = workers(with_ray)
    assert len(nodes) == 2
    assert killed not in nodes
    for node in cluster.nodes:
        if node.all_processes["raylet"][0].process.pid in nodes.values():
            cluster.remove_node(node, allow_graceful=False)
            break
    told = end(process)
    assert told.count("a worker died (") == 2
    assert told.count("the last checkpoint is of epoch ") == 2
    end(start(alone, f"{TRAIN} --devices 2"))
    (found,), (expected,) = records(with_ray), records(alone)
    for name in ("hash", "scores", "curves", "best_epoch", "epochs", "processes"):
        assert found[name] == expected[name]
    left = {path.name for path in with_ray.glob("runs/*/*")}
    assert left == {"best.ckpt", "config.yaml", "metrics.csv"}


def test_training_that_is_stopped_writes_a_checkpoint_and_goes_on_without_ray(
    cluster, tmp_path
):
    with_ray, alone = tmp_path / "ray", tmp_path / "alone"
    process = start(with_ray, f"{TRAIN} --ray 2")
    wait_until(lambda: [*with_ray.glob("runs/*/last.ckpt")], process)
    before = time.time()
    process.send_signal(signal.SIGINT)
    told = end(process, code=130)
    assert told == "error: stopped by SIGINT; go on with --resume.\n"
    (last,) = with_ray.glob("runs/*/last.ckpt")
    assert last.stat().st_mtime >= before
    assert list(with_ray.glob("runs/*/run.lock")) == []
    again = f"{TRAIN} --runs ../ray/runs"
    told = end(start(tmp_path / "again", f"{again} --ray 2"), code=2)
    assert "holds an unfinished run" in told
    assert len(told.splitlines()) == 1
    end(start(alone, f"{again} --devices 2 --resume"))
    end(start(tmp_path / "whole", f"{TRAIN} --devices 2"))
    (found,), (expected,) = records(alone), records(tmp_path / "whole")
    assert found["curves"] == expected["curves"]
    assert found["scores"] == expected["scores"]


def test_training_uses_the_gpus_of_a_cluster_whose_first_node_has_none(
    cluster, tmp_path
):
    for _ in range(2):  # without real GPUs, the workers train on the CPU
        cluster.add_node(num_gpus=1, **SMALL)
    command = TRAIN.replace("--accelerator cpu", "--epochs 1")
    end(start(tmp_path / "ray", f"{command} --ray 2"))
    assert records(tmp_path / "ray")[0]["processes"] == 2


def test_training_with_wrong_input_ends_with_one_sentence(cluster, tmp_path):
    wrong = {
        "--ray 4": "--ray is 4, but the Ray cluster has 3 CPUs; give at most 3.",
        "--ray 2 --set train.precision=16": "train.precision=16 needs a GPU; use bf16",
        "--data-dir gone --ray 2": f"does not see {tmp_path}/2/gone; give a folder",
        "--devices 2 --ray 2": "--ray 2 is the number of processes on the whole",
        "--ray 0": "--ray is 0; give a number of at least 1.",
        "--ray auto": "--ray is 'auto'; give a whole number.",
    }
    for number, (options, told) in enumerate(wrong.items()):
        process = start(tmp_path / str(number), f"{TRAIN} {options}")
        error = end(process, code=2)
        assert told in error
        assert len(error.splitlines()) == 1


def test_training_at_an_address_that_does_not_answer_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    error = end(start(tmp_path / "ray", f"{TRAIN} --ray 2"), code=2)
    assert error.startswith("error: there is no Ray cluster at 127.0.0.1:9 (no answer")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("command", [f"{SWEEP} --ray auto", f"{TRAIN} --ray 2"])
@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("__version__ = '0.0.9'", "has gnnak 0.0.9; install "),
        ("raise ImportError('no')", "of the Ray cluster has no gnnak; install "),
    ],
)
def test_a_node_with_another_version_or_none_is_named_before_a_run_starts(
    package, told, command, cluster, tmp_path
):
    (tmp_path / "other" / "gnnak").mkdir(parents=True)
    (tmp_path / "other" / "gnnak" / "__init__.py").write_text(package + "\n")
    cluster.add_node(**SMALL, env_vars={"PYTHONPATH": str(tmp_path / "other")})
    folder = tmp_path / "ray"
    error = end(start(folder, command), code=2)
    assert error.startswith("error: the node ")
    assert told in error
    assert len(error.splitlines()) == 1
    assert list(folder.glob("runs/*")) == list(folder.glob("runs/.*")) == []
