import json
from dataclasses import asdict, replace

from benchmarks.family_results import brec_lines, option_lines, result_lines
from gnnak.brec.data import GROUPS
from gnnak.brec.trial import trial_options
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.records.results import append_record


def run(model: str, name: str, test: float, seed: int = 0, epochs: int | None = None):
    config = load_experiment("zinc" if name == "zinc" else "counting").config_for(model)
    if name != "zinc":
        config = replace(config, data=replace(config.data, target=name))
    if epochs is not None:
        config = replace(config, train=replace(config.train, epochs=epochs))
    return {"cell": config.cell(), "seed": seed, "scores": {"test": test}}


def options_of(model: str, **changed: int):
    """The options of a record of BREC, as read from JSON."""
    return json.loads(json.dumps(asdict(trial_options(model, **changed))))


def test_result_lines_show_means_over_seeds_of_runs_with_the_usual_options():
    records = [
        run("sswl+-gin", "zinc", 9.0, epochs=2),
        run("sswl+-gin", "zinc", 0.07),
        run("sswl+-gin", "zinc", 0.08, seed=1),
        run("sswl+-gin", "star", 0.00667),
        run("gin", "zinc", 0.17),
    ]
    seeds = counts_of(1, 2)
    brec = {"options": options_of("sswl+-gin"), "seeds": seeds}
    random = {"options": options_of("gin", epochs=0), "seeds": seeds}
    lines = {line[0]: line[1:] for line in result_lines(records, [brec, random])}
    assert lines["`gin`"] == ["0.170", "", "", "", "", ""]
    assert lines["`sswl+-gin`"] == [
        *("0.075, 2 seeds (0.070)", "(0.0059)", "(0.0063)"),
        *("0.0067 (0.0077)", "(0.0075)", "7 / 14 (248)"),
    ]
    assert lines["`ds-gin`"] == ["(0.116)", "", "", "", "", "(222)"]


def counts_of(released: int, corrected: int | None = None, groups=GROUPS):
    both = {"released": released, "corrected": corrected or released}
    return {"100": dict.fromkeys(groups, both)}


def test_brec_lines_show_both_tests_only_where_they_differ():
    seeds = counts_of(2)
    seeds["100"]["cfi"] = {"released": 3, "corrected": 1}
    record = {"options": options_of("sun-gin"), "seeds": seeds}
    record["published"] = {"SUN": 223}
    (line,) = brec_lines([record])
    cells = ["2", "2", "2", "2", "3 / 1", "2", "2", "15 / 13"]
    assert line == ["`sun-gin`", *cells, "251", "223"]
    random = {"options": options_of("sun-gin", epochs=0)}
    lines = brec_lines([record, record | random])
    assert [line[0] for line in lines] == ["`sun-gin`", "`sun-gin`, random weights"]
    other = {"options": options_of("ppgn-ak+")}
    (line,) = brec_lines([record | other])
    assert line[-2:] == ["297", "-"]


def test_brec_lines_show_ceilings_from_the_records_of_the_wl_tests(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("benchmarks.family_results.RESULTS", tmp_path)
    record = {"options": options_of("sun-gin"), "seeds": counts_of(2), "published": {}}
    wl = {"test": "gswl", "options": {"num_hops": 6, "readout": "vs"}}
    groups = {name: {"apart": 5, "not_run": []} for name in GROUPS if name != "cfi"}
    append_record(tmp_path / "wl_brec.jsonl", wl | {"groups": groups})
    assert brec_lines([record])[0][-2] == "30 to 130"
    cfi = {"cfi": {"apart": 7, "not_run": [1, 2]}}
    append_record(tmp_path / "wl_brec.jsonl", wl | {"groups": cfi})
    assert brec_lines([record])[0][-2] == "37 to 39"


def test_brec_lines_join_the_groups_of_several_records():
    usual = {"published": {}, "options": options_of("sun-gin")}
    first, *others = GROUPS
    one = usual | {"seeds": counts_of(1, groups=[first])}
    rest = usual | {"seeds": counts_of(2, groups=others)}
    assert brec_lines([one]) == brec_lines([rest]) == []
    newer = usual | {"seeds": counts_of(3, groups=[first])}
    (line,) = brec_lines([one, rest, newer])
    assert line[1:9] == ["3", *"222222", "15"]


def test_brec_lines_leave_out_other_options_and_seeds():
    usual = {"published": {}, "options": options_of("sun-gin"), "seeds": counts_of(2)}
    assert len(brec_lines([usual])) == 1
    for other in (
        {"options": options_of("sun-gin", num_layers=2)},
        {"seeds": {"7": counts_of(2)["100"]}},
    ):
        assert brec_lines([usual | other]) == []


def test_option_lines_compare_runs_with_those_with_the_usual_options():
    entry = load_experiment("zinc")

    def made(model: str, test: float, seed: int = 0, **changes):
        options = {key.replace("__", "."): value for key, value in changes.items()}
        config = change(entry.config_for(model), options | {"train.seed": seed})
        scores = {"validation": 2 * test, "test": test}
        found = {"scores": scores, "parameters": 7, "cell": config.cell()}
        return found | {"config": config.to_dict()}

    records = [
        made("gin-ak+", 0.9, model__pairs=["distance", "rrwp"]),
        made("gin-ak+", 0.2),
        made("gin-ak+", 0.4, seed=1),
        made("gin-ak+", 0.5, model__num_layers=3),
        made("gin", 0.6),
        run("gin-ak+", "star", 0.1) | {"config": {"data": {"name": "counting"}}},
    ]
    assert option_lines(records) == [
        ["`gin-ak+`", "as usual", "7", "2", "0.6000", "0.3000"],
        [
            "`gin-ak+`",
            "`model.pairs=['distance', 'rrwp']`",
            *("7", "1", "1.8000", "0.9000"),
        ],
    ]
