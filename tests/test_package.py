"""The public names of the package `gnnak`."""

import gnnak


def test_dir_shows_the_public_names_and_the_packages():
    shown = dir(gnnak)
    packages = {"datasets", "errors", "graphs", "loading", "models", "nn", "report"}
    packages |= {"sampling", "subgraphs", "testing", "training", "wl"}
    assert {"uplift", "GNNAK"} | packages <= set(shown)
    assert shown == sorted(set(shown))
    assert all(hasattr(gnnak, name) for name in shown)
