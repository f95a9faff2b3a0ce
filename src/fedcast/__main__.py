"""Let `python -m fedcast` run the command line."""

from fedcast.cli import main

main()
