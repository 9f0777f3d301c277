from dataclasses import replace

import pytest

from gnnak.errors import CheckpointError, TrainingError
from gnnak.training import callbacks as callbacks_module
from gnnak.training.run import last_checkpoint, run
from tests.training.small import small_config, triangles


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a run with `best.ckpt` and `last.ckpt`."""
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    run(small_config(train__epochs=1), triangles(4), tmp_path)
    return tmp_path


def test_last_checkpoint_refuses_other_data(folder):
    data = triangles(4)
    assert data.store.y is not None
    shifted = replace(data, store=replace(data.store, y=1 - data.store.y))
    with pytest.raises(CheckpointError, match=r"last\.ckpt was written on other data"):
        run(small_config(train__epochs=1), shifted, folder, resume=True)
    run(small_config(train__epochs=1), data, folder, resume=True)


def test_last_checkpoint_reads_files_of_older_versions(folder, monkeypatch):
    monkeypatch.setattr(callbacks_module.RunHistory, "state_dict", without_fingerprint)
    (folder / "last.ckpt").unlink()
    run(small_config(train__epochs=1), triangles(4), folder)
    assert last_checkpoint(folder, True, "triangles", "0") == folder / "last.ckpt"


def without_fingerprint(self):
    return {
        "curves": self.curves,
        "best_epoch": self.best_epoch,
        "best_weights": self.best_weights,
        "seconds": dict(self.clock.seconds),
        "megabytes": self.clock.megabytes,
    }


def test_last_checkpoint_needs_resume_and_a_whole_file(folder):
    path = folder / "last.ckpt"
    with pytest.raises(TrainingError, match="holds an unfinished run"):
        last_checkpoint(folder, False, "triangles", "")
    path.write_bytes(path.read_bytes()[:-500])
    for content in (path.read_bytes(), b"", (folder / "best.ckpt").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(
            CheckpointError, match=r"is damaged or not .* to start over"
        ):
            last_checkpoint(folder, True, "triangles", "")
    path.unlink()
    assert last_checkpoint(folder, True, "triangles", "") is None
