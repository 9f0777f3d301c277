import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gnnak import __version__
from gnnak.errors import MissingPackageError, OptionError, TrainingError
from gnnak.training.processes.machine import Machine
from gnnak.training.schedule.cluster import Cluster, check_node, connected

ROOT = Path(__file__).parents[3]


def refusal(*answer) -> str:
    with pytest.raises(TrainingError) as refused:
        check_node("10.0.0.2", *answer)
    return str(refused.value)


def test_check_node_names_the_node_and_what_to_do():
    check_node("10.0.0.2", __version__, [])
    node, install = (
        "the node 10.0.0.2 of the Ray cluster",
        f"install gnnak {__version__}",
    )
    assert refusal(None, []) == f"{node} has no gnnak; {install} there."
    assert refusal("0.0.9", []) == f"{node} has gnnak 0.0.9; {install} there."
    assert refusal(__version__, ["/data/runs", "a.csv"]) == (
        f"{node} does not see /data/runs; give a folder that all nodes share, under "
        "the same path."
    )


GPU_NODE = {"CPU": 32.0, "GPU": 4.0, "memory": 1e12}
CPU_NODES = [{"CPU": 16.0, "memory": 2e9}, {"CPU": 6.0, "memory": 1e9}]


@pytest.fixture
def gpu(monkeypatch):
    """Let this machine have a GPU with 100 000 MB of memory."""
    memory = SimpleNamespace(total_memory=100_000 * 2**20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)


def test_resources_on_gpus_are_the_share_of_the_jobs_or_of_the_memory(gpu):
    cluster = Cluster(None, [GPU_NODE], Machine())
    assert cluster.resources(1) == {"num_gpus": 1, "num_cpus": 8}
    assert cluster.resources(3) == {"num_gpus": 0.3333, "num_cpus": 2}
    assert cluster.resources(16) == {"num_gpus": 0.0625, "num_cpus": 0.5}
    # 44300 MB, and 700 MB of the process, are half of 90 % of the GPU's memory.
    assert cluster.resources(16, 44_300.0) == {"num_gpus": 0.5, "num_cpus": 4}
    assert cluster.resources(16, 1e9) == {"num_gpus": 1, "num_cpus": 8}
    assert [cluster.slots(jobs) for jobs in (1, 3, 16)] == [4, 12, 64]


def test_resources_of_gpus_that_this_machine_lacks_are_the_share_of_the_jobs():
    cluster = Cluster(None, [{"CPU": 2.0, "GPU": 1.0}], Machine())
    assert cluster.resources(2, 1e9) == {"num_gpus": 0.5, "num_cpus": 1}


def test_resources_without_gpus_are_the_share_of_the_smallest_node():
    cluster = Cluster(None, [*CPU_NODES, GPU_NODE], Machine("cpu"))
    assert cluster.resources(1) == {"num_cpus": 6}
    assert cluster.resources(12) == {"num_cpus": 0.5}
    assert cluster.resources(18) == {"num_cpus": 0.3333}
    assert cluster.resources(6, 100.0) == {"num_cpus": 1, "memory": 100 * 2**20}
    # A task never asks for more memory than a node has: it would wait for ever.
    assert cluster.resources(6, 1e6) == {"num_cpus": 1, "memory": 1e9}
    assert [cluster.slots(jobs) for jobs in (1, 12)] == [2 + 1 + 5, 32 + 12 + 64]


def test_connected_without_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError) as missing, connected("auto", Machine()):
        pass
    assert str(missing.value) == (
        "--ray needs ray; install it with pip install ray, or install gnnak with its "
        "extra ray."
    )


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:9", "no answer"), ("nonsense", "ValueError: Invalid address format")],
)
def test_connected_to_an_address_without_a_cluster_says_so(address, why, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("gnnak.training.schedule.cluster.CONNECT_SECONDS", 10)
    with pytest.raises(OptionError) as refused, connected(address, Machine()):
        pass
    told = str(refused.value)
    assert told.startswith(f"there is no Ray cluster at {address} ({why}")
    assert "; give the address that `ray start` printed, or local (for" in told
    assert told.count(". ") == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_connected_checks_that_all_nodes_see_the_files(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    files = [".", "gone.csv"]
    with (
        pytest.raises(TrainingError) as refused,
        connected("local", Machine("cpu"), files),
    ):
        pass
    missing = tmp_path / "gone.csv"
    assert f"does not see {missing}; give a folder that all" in str(refused.value)
    missing.touch()
    with connected("local", Machine(), files) as cluster:
        assert not cluster.is_gpu
    machine = Machine()
    object.__setattr__(machine, "accelerator", "gpu")  # as on a machine with a GPU
    told = "the Ray cluster has no GPU; use --accelerator cpu."
    with pytest.raises(OptionError, match=told), connected("local", machine):
        pass
