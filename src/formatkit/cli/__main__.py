"""`python -m formatkit.cli` is the command `formatkit`."""

from formatkit.cli.app import main

main()
