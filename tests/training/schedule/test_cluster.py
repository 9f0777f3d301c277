import sys
from pathlib import Path

import pytest

from gnnak import __version__
from gnnak.errors import MissingPackageError, OptionError, TrainingError
from gnnak.training.processes.machine import Machine
from gnnak.training.schedule.cluster import Cluster, Node, connected

ROOT = Path(__file__).parents[3]


class FakeRay:
    """Stands in for a connected `ray` with nodes of several machines."""

    def __init__(self, **resources: float) -> None:
        self.resources = resources

    def cluster_resources(self) -> dict[str, float]:
        return self.resources


def refusal(**answer) -> str:
    with pytest.raises(TrainingError) as refused:
        Node("10.0.0.2", {"CPU": 4.0}, **answer).check()
    return str(refused.value)


def test_check_names_the_node_and_what_to_do():
    Node("10.0.0.2", {"CPU": 4.0}, __version__).check()
    node = "the node 10.0.0.2 of the Ray cluster"
    assert refusal(version=None) == f"{node} has no gnnak; install {__version__} there."
    assert refusal(version="0.0.9") == (
        f"{node} has gnnak 0.0.9, and this machine has {__version__}; install the same "
        "version on both."
    )
    assert refusal(unseen=["runs", "a.csv"]) == (
        f"{node} does not see runs; give a folder that all nodes share, under the same "
        "path."
    )


GPU_NODE = Node("a", {"CPU": 32.0, "GPU": 4.0}, gpus=["NVIDIA H200, 100000"] * 4)
CPU_NODES = [Node("a", {"CPU": 16.0}), Node("b", {"CPU": 6.0})]


def test_resources_on_gpus_are_the_share_of_the_jobs_or_of_the_memory():
    nodes = [GPU_NODE, Node("b", {"CPU": 2.0, "memory": 1e9})]
    cluster = Cluster(FakeRay(GPU=4.0), nodes, Machine())
    assert cluster.device == "NVIDIA H200"
    assert cluster.resources(1) == {"num_gpus": 1, "num_cpus": 8}
    assert cluster.resources(3) == {"num_gpus": 0.3333, "num_cpus": 2}
    assert cluster.resources(16) == {"num_gpus": 0.0625, "num_cpus": 0.5}
    # 44300 MB, and 700 MB of the process, are half of 90 % of the GPU's memory.
    assert cluster.resources(16, 44_300.0) == {"num_gpus": 0.5, "num_cpus": 4}
    assert cluster.resources(16, 1e9) == {"num_gpus": 1, "num_cpus": 8}
    assert cluster.slots(1) == 4
    assert cluster.slots(3) == 12


def test_resources_of_gpus_with_unknown_memory_are_the_share_of_the_jobs():
    nodes = [Node("a", {"CPU": 2.0, "GPU": 1.0})]
    cluster = Cluster(FakeRay(GPU=1.0), nodes, Machine())
    assert cluster.device is None
    assert cluster.resources(2, 1e9) == {"num_gpus": 0.5, "num_cpus": 1}


def test_resources_without_gpus_are_the_share_of_the_smallest_node():
    ray = FakeRay(CPU=22.0)
    cluster = Cluster(ray, [*CPU_NODES, GPU_NODE], Machine("cpu"))
    assert cluster.device is None
    assert cluster.resources(1) == {"num_cpus": 6}
    assert cluster.resources(12) == {"num_cpus": 0.5}
    assert cluster.slots(1) == 3
    assert cluster.slots(12) == 44
    ray.resources = {}  # all nodes have died; others may come
    assert cluster.slots(1) == 1


def test_resources_never_ask_for_more_memory_than_a_node_has():
    nodes = [
        Node("a", {"CPU": 16.0, "memory": 2e9}),
        Node("b", {"CPU": 6.0, "memory": 1e9}),
    ]
    cluster = Cluster(FakeRay(CPU=22.0), nodes, Machine("cpu"))
    assert cluster.resources(6, 100.0) == {"num_cpus": 1, "memory": 100 * 2**20}
    assert cluster.resources(6, 1e6) == {"num_cpus": 1, "memory": 1e9}


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
    assert told.endswith("; give the address that `ray start` printed, or local.")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_connected_checks_that_all_nodes_see_the_files(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    runs, table = Path("runs"), tmp_path / "new.csv"
    files = ["runs", "gone.csv", None]
    with (
        pytest.raises(TrainingError) as refused,
        connected("local", Machine("cpu"), runs, files),
    ):
        pass
    assert "does not see gone.csv; give a folder that all nodes" in str(refused.value)
    assert list(runs.iterdir()) == []
    table.touch()
    with connected("local", Machine(), runs, [table, "new.csv"]) as cluster:
        (node,) = cluster.nodes
        assert (node.version, node.unseen) == (__version__, [])
        assert not cluster.is_gpu
    machine = Machine()
    object.__setattr__(machine, "accelerator", "gpu")  # as on a machine with a GPU
    told = "the Ray cluster has no GPU; use --accelerator cpu."
    with pytest.raises(OptionError, match=told), connected("local", machine):
        pass
