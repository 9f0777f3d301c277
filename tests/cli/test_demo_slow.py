import json

import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_demo_leaves_the_plain_gnn_at_chance_and_brings_the_uplifted_one_to_all(
    seed, tmp_path
):
    arguments = ["--json", "--seed", str(seed), "--picture", str(tmp_path / "demo.png")]
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 0, result.output
    accuracy = json.loads(result.stdout)["accuracy"]
    assert accuracy == {"gin": 0.5, "gin-ak+": 1.0}
