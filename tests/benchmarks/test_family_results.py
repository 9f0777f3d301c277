import json
from dataclasses import asdict, replace

from benchmarks.family_results import brec_lines, result_lines
from gnnak.brec.data import GROUPS
from gnnak.brec.trial import trial_options
from gnnak.training.config.experiment import load_experiment


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
    counts = {name: {"released": 258, "corrected": 260} for name in (*GROUPS, "all")}
    brec = {"options": options_of("sswl+-gin"), "seeds": {"100": counts}}
    random = {"options": options_of("gin", epochs=0), "seeds": {"100": counts}}
    lines = {line[0]: line[1:] for line in result_lines(records, [brec, random])}
    assert lines["`gin`"] == ["0.170", "", "", "", "", ""]
    assert lines["`sswl+-gin`"] == [
        *("0.075, 2 seeds (0.070)", "(0.0059)", "(0.0063)"),
        *("0.0067 (0.0077)", "(0.0075)", "258 / 260 (248)"),
    ]
    assert lines["`ds-gin`"] == ["(0.116)", "", "", "", "", "(222)"]


def test_brec_lines_show_both_tests_only_where_they_differ():
    counts = {name: {"released": 2, "corrected": 2} for name in (*GROUPS, "all")}
    counts["cfi"] = {"released": 3, "corrected": 1}
    record = {
        "options": options_of("sun-gin"),
        "seeds": {"100": counts},
        "ceiling": {"apart": {"basic": 60, "cfi": 41}, "not_run": 0},
        "published": {"SUN": 223},
    }
    (line,) = brec_lines([record])
    assert line == ["`sun-gin`", *"2222", "3 / 1", "2", "2", "2", "101", "223"]
    partly = {"apart": {"basic": 60, "4-vertex": 0}, "not_run": 20}
    (line,) = brec_lines([record | {"ceiling": partly}])
    assert line[-2] == "60 to 80"
    random = {"options": options_of("sun-gin", epochs=0)}
    lines = brec_lines([record, record | random])
    assert [line[0] for line in lines] == ["`sun-gin`", "`sun-gin`, random weights"]
    other = {"options": options_of("ppgn-ak+"), "ceiling": None}
    (line,) = brec_lines([record | other])
    assert line[-2:] == ["-", "-"]


def test_brec_lines_leave_out_other_options_groups_and_seeds():
    counts = {name: {"released": 2, "corrected": 2} for name in (*GROUPS, "all")}
    usual = {"ceiling": None, "published": {}, "options": options_of("sun-gin")}
    usual["seeds"] = {"100": counts}
    assert len(brec_lines([usual])) == 1
    part = {"basic": counts["basic"], "all": counts["all"]}
    for change in (
        {"options": options_of("sun-gin", num_layers=2)},
        {"seeds": {"7": counts}},
        {"seeds": {"100": part}},
    ):
        assert brec_lines([usual | change]) == []
