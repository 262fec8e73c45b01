"""`python -m app.cli`: how the commands start each other, whatever is on PATH."""

from app.cli.main import main

main()
