"""Write a trained network into the package, where users load it by name.

    python -m benchmarks.ship_network seed0/best.ckpt seed1/best.ckpt seed2/best.ckpt

Of several checkpoints of one data set, the one with the best validation score is taken.
The program scores it again, on the CPU, and refuses a network whose test score differs
from the recorded one. `gnnak.from_pretrained("zinc")` and `gnnak predict zinc` then
load the network by the name of its data set.
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path

from gnnak.datasets.record import Dataset
from gnnak.errors import CheckpointError
from gnnak.training.launch import Places, find_dataset
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import choose_parts
from gnnak.training.records.checkpoint import Checkpoint, load_checkpoint, save_folder
from gnnak.training.run import evaluate, fill_unseen
from gnnak.training.trained import SHIPPED

LIMIT = 5_000_000
"""Largest size, in bytes, of the files of one network."""
TOLERANCE = 5e-3
"""Largest difference of the test score, relative to the recorded one: a GPU and a CPU
round differently."""
INTRO = {
    "zinc": (
        "Predicts the penalised logP of drug-like molecules (logP, minus synthetic "
        "accessibility, minus a penalty for large rings; normalised), the target of "
        "ZINC-12K. Takes graphs of ZINC-12K, or SMILES strings with RDKit. Atoms "
        "without a type in ZINC, such as Si, get the mean embedding of all types."
    )
}
"""First paragraphs of the model cards, by data set."""


def best_of(checkpoints: list[Checkpoint]) -> Checkpoint:
    """Return the checkpoint with the best validation score.

    Raises:
        CheckpointError: If the checkpoints are of different data sets.
    """
    names = sorted({checkpoint.info.name for checkpoint in checkpoints})
    if len(names) > 1:
        raise CheckpointError(f"the data sets differ: {', '.join(names)}; give one.")
    sign = 1 if checkpoints[0].info.lower_is_better else -1

    def rank(checkpoint: Checkpoint) -> float:
        score = checkpoint.scores.get("validation")
        return math.inf if score is None else sign * score

    return min(checkpoints, key=rank)


def checked(checkpoint: Checkpoint, dataset: Dataset) -> Checkpoint:
    """Return the checkpoint with mean embeddings of categories that it has not seen.

    Raises:
        CheckpointError: If its test score is not the recorded one.
    """
    network, data = checkpoint.network(), checkpoint.config.data
    train = choose_parts(dataset, data.protocol).train
    fill_unseen(network, dataset.graphs_of(train))
    checkpoint = replace(checkpoint, weights=network.state_dict())
    score = evaluate(checkpoint, dataset, "test", Machine("cpu")).score
    recorded = checkpoint.scores["test"]
    if recorded is None or not math.isclose(score, recorded, rel_tol=TOLERANCE):
        raise CheckpointError(f"the test score is {score}, but was {recorded}.")
    return checkpoint


def ship(paths: list[Path], root: Path = SHIPPED, data_dir: Path | None = None) -> Path:
    """Write the best of some checkpoints to a folder with the name of its data set.

    Args:
        paths: The checkpoints.
        root: Folder of the shipped networks.
        data_dir: Folder with the files of data sets; None = the default folders.

    Returns:
        The folder of the network.

    Raises:
        CheckpointError: If a checkpoint is damaged, does not reach its recorded score,
            or is too large.
    """
    best = best_of([load_checkpoint(path) for path in paths])
    best = checked(best, find_dataset(best.config, Places(data_dir)))
    size = sum(w.numel() * w.element_size() for w in best.weights.values())
    if size > LIMIT:
        raise CheckpointError(f"the weights have {size} bytes; at most {LIMIT}.")
    name = best.info.name
    save_folder(best, root / name, name, INTRO.get(name, ""))
    return root / name


def main() -> None:
    """Ship the network of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoints", nargs="+", type=Path)
    parser.add_argument("--data-dir", type=Path, default=None)
    given = parser.parse_args()
    folder = ship(given.checkpoints, data_dir=given.data_dir)
    print(f"wrote {folder}:")
    for file in sorted(folder.iterdir()):
        print(f"  {file.name}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
