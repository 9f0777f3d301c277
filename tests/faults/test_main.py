import pytest

from tests.faults.__main__ import main


@pytest.mark.parametrize(
    ("argument", "code", "told"),
    [("--help", 0, "kills-at-record"), ("killz", 2, "unknown fault killz")],
)
def test_main_lists_the_kinds_of_faults(argument, code, told, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.faults", argument])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == code
    assert told in "".join(capsys.readouterr())


def test_main_tries_all_kinds_if_none_is_named(monkeypatch):
    tried = []

    def refuse(_):
        tried.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.faults.__main__.FAULTS", {"first": refuse})
    monkeypatch.setattr("sys.argv", ["tests.faults"])
    with pytest.raises(KeyboardInterrupt):
        main()
    assert tried
