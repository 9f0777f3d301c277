import pytest

from tests.faults.__main__ import main


@pytest.mark.parametrize(
    ("argument", "code", "told"),
    [("--help", 0, "kills-at-record"), ("killz", 2, "invalid choice: 'killz'")],
)
def test_main_lists_the_kinds_of_faults(argument, code, told, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.faults", argument])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == code
    assert told in "".join(capsys.readouterr())
