"""`python -m gnnak.cli` is `gnnak`."""

from gnnak.cli import main

main()
