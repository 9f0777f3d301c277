import json
from dataclasses import replace

import numpy as np
import pytest

import gnnak
from gnnak.errors import FileFormatError, OptionError
from gnnak.training.prediction_files import fingerprints, open_writer
from gnnak.training.predictions import predict_parts
from gnnak.training.trained import TrainedModel


@pytest.fixture
def model(molecule_folder):
    return gnnak.load(molecule_folder / "best.ckpt")


def write(model, path, parts: int, fail: bool = False, **options) -> None:
    """Write the predictions for one molecule several times."""
    with open_writer(path, model.info, **options) as writer:
        for _ in range(parts):
            writer.write(next(predict_parts([model], ["CO"])))
        if fail:
            raise ZeroDivisionError


def test_fingerprints_differ_if_a_weight_the_data_or_an_option_differs(model, tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    weights = {k: v.clone() for k, v in model.checkpoint.weights.items()}
    next(v for v in weights.values() if v.is_floating_point()).view(-1)[0] += 1e-3
    other = TrainedModel(replace(model.checkpoint, weights=weights))
    found = [
        fingerprints(models, [tmp_path / name for name in files], smiles=smiles)
        for models, files, smiles in (
            ([model], "a", None),
            ([other], "a", None),
            ([model, model], "a", None),
            ([model], "b", None),
            ([model], "ab", None),
            ([model], "a", "mol"),
        )
    ]
    assert len({json.dumps(each) for each in found}) == len(found)
    assert fingerprints([model], [tmp_path / "a"], smiles=None) == found[0]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet", "out.npz"])
def test_open_writer_that_fails_keeps_the_earlier_output(model, tmp_path, name):
    write(model, tmp_path / name, 2)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(ZeroDivisionError):
        write(model, tmp_path / name, 1, fail=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_open_writer_numbers_the_rows_where_it_continues(model, tmp_path):
    path, given = tmp_path / "out.csv", {"depends_on": {"a": 1}, "resume": True}
    for parts in (1, 2):
        with pytest.raises(ZeroDivisionError):
            write(model, path, parts, fail=True, **given)
    for other in ({"a": 2}, {}, None):
        with pytest.raises(OptionError, match="with other a, so --resume"):
            write(model, path, 1, depends_on=other, resume=True)
    write(model, path, 1, **given)
    assert [line.split(",")[0] for line in path.read_text().split()] == [
        *("row", "1", "2", "3", "4")
    ]


def test_open_writer_names_a_column_that_parquet_cannot_store(model, tmp_path):
    part = next(predict_parts([model], ["CO", "CC"]))
    rows = replace(part.rows, columns={"mixed": [1, "a"]})
    with (
        pytest.raises(FileFormatError, match=r"column mixed cannot .*; write \.csv\."),
        open_writer(tmp_path / "out.parquet", model.info) as writer,
    ):
        writer.write(part._replace(rows=rows))
    assert list(tmp_path.iterdir()) == []


def test_open_writer_collects_arrays(model, tmp_path):
    write(model, tmp_path / "out.npz", 3)
    with np.load(tmp_path / "out.npz") as found:
        assert found["values"].shape == (3, 1)
