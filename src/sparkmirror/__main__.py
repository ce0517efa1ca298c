"""``python -m sparkmirror``: the same as the console script."""

from sparkmirror.cli.app import main

main()
