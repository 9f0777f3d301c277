"""Records as training writes them, with invented figures."""

from pathlib import Path

from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import Record, append_record


def run_record(config: RunConfig, seed=0, fold=None, test=0.5, **more) -> Record:
    """Return the record of one run; `more` overrides its entries."""
    config = change(config, {"train.seed": seed, "data.fold": fold})
    record = {
        "kind": "run",
        "experiment": config.data.name,
        "config": config.to_dict(),
        "hash": config.hash(),
        "cell": config.cell(),
        "seed": seed,
        "fold": fold,
        "protocol": config.data.protocol,
        "metric": "mae",
        "lower_is_better": True,
        "scores": {"validation": test, "test": test},
        "best_epoch": 1,
        "epochs": config.train.epochs,
        "curves": {"train_loss": [1.0, 0.8], "validation": [0.9, test]},
        "seconds": {"data": 0.5, "train": 1.5, "evaluation": 0.2, "total": 9.0},
        "peak_memory_mb": {"train": 1234.5, "evaluation": 99.0},
        "parameters": 10,
        "source": "by hand",
        "device": "abacus",
        "cores": 2,
        "versions": {"gnnak": "0", "torch": "2"},
        "commit": "abc",
        "time": "2026-01-01T00:00:00+00:00",
    }
    return record | more


def write_records(folder: Path, records, name="runs.jsonl") -> Path:
    """Write records to a file of a folder; return the folder."""
    for record in records:
        append_record(folder / name, record)
    return folder
