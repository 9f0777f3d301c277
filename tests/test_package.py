"""The public names of the package `gnnak`."""

import gnnak


def test_dir_shows_the_public_names_and_the_packages():
    shown = dir(gnnak)
    assert {"uplift", "GNNAK", "wl", "nn", "graphs", "datasets", "testing"} <= set(
        shown
    )
    assert shown == sorted(set(shown))
    assert all(hasattr(gnnak, name) for name in shown)
