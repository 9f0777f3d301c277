"""Processes that torchrun starts train one model together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gnnak
from gnnak.training.processes.workers import MAIN
from tests.cli.training import records

ROOT = Path(__file__).parents[2]
TRAIN = (
    *("train", "triangles", "--graphs", "200", "--epochs", "2", "--channels", "8"),
    *("--layers", "1", "--accelerator", "cpu", "--set", "train.precision=64"),
)
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run `python -m` with arguments in a folder."""
    folder.mkdir(exist_ok=True)
    paths = {"PYTHONPATH": str(ROOT), "GNNAK_CACHE": str(folder / "cache")}
    environment = {k: v for k, v in os.environ.items() if k != MAIN}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment | paths | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def best_weights(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = folder.glob("runs/*/best.ckpt")
    return gnnak.load(path).network.state_dict()


@pytest.mark.slow
def test_two_torchrun_processes_train_one_model(tmp_path):
    torchrun, alone = tmp_path / "torchrun", tmp_path / "alone"
    program = (*TORCHRUN, "-m", "tests.cli.train_and_save_weights")
    done = run(torchrun, *program, *TRAIN, "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    both = [torch.load(torchrun / f"weights-{rank}.pt") for rank in (0, 1)]
    assert both[0].keys() == both[1].keys()
    assert all(torch.equal(both[0][name], both[1][name]) for name in both[0])
    (record,) = records(torchrun)
    assert record["processes"] == 2

    # One process with the same batch size computes the same, up to rounding.
    assert run(alone, "gnnak.cli", *TRAIN).returncode == 0
    (other,) = records(alone)
    assert record["hash"] == other["hash"]
    assert record["scores"] == pytest.approx(other["scores"])
    for curve in ("validation", "train_loss"):
        expected = pytest.approx(other["curves"][curve], abs=1e-5)
        assert record["curves"][curve] == expected
    weights = best_weights(torchrun), best_weights(alone)
    torch.testing.assert_close(*weights, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_torchrun_with_another_number_of_devices_is_one_sentence(tmp_path):
    done = run(tmp_path, *TORCHRUN, "-m", "gnnak.cli", *TRAIN)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert set(told) == {
        "error: torchrun started 2 processes, but devices x num_nodes is 1 x 1; give "
        "--devices the number of processes per machine, and --num-nodes the number of "
        "machines."
    }
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "results").exists()
