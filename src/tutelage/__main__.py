"""`python -m tutelage`: the command, without a script on the path."""

from tutelage.cli.main import run

run()
