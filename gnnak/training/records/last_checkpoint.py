"""Find the checkpoint `last.ckpt` from which a stopped run continues."""

from pathlib import Path

from gnnak.errors import CheckpointError, TrainingError
from gnnak.training.callbacks.history import STATE_KEY
from gnnak.training.records.checkpoint import read_tensors


def last_checkpoint(
    folder: Path, resume: bool, name: str, data_hash: str
) -> Path | None:
    """Return the path of `last.ckpt`, to resume from; None if there is no such file.

    Args:
        folder: The folder of the run.
        resume: Whether the run may be resumed.
        name: The name of the data set.
        data_hash: The fingerprint of the data set.

    Raises:
        TrainingError: If the file exists but `resume` is False.
        CheckpointError: If the file is damaged, is not a checkpoint of a run, or is of
            a run on other data.
    """
    last = folder / "last.ckpt"
    if not last.exists():
        return None
    if not resume:
        raise TrainingError(
            f"{folder} holds an unfinished run; go on with --resume, or remove the "
            "folder to start over."
        )
    try:
        content = read_tensors(last)
        _, history = content["loops"], content["callbacks"][STATE_KEY]
        earlier = history.get("fingerprint")
    except (CheckpointError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{last} is damaged or not a checkpoint of a run; remove it to start over."
        ) from error
    if earlier not in (None, data_hash):
        raise CheckpointError(
            f"{last} was written on other data: the graphs, targets or splits of "
            f"{name} have the fingerprint {data_hash}, not {earlier}; use the same "
            "data, or remove the folder to start over."
        )
    return last
