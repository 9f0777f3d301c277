"""Run the command line with `python -m gnnak.cli`."""

from gnnak.cli import main

main()
