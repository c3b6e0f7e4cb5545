"""``python -m nearcal.cli`` is the command ``nearcal``."""

from nearcal.cli import main

main()
