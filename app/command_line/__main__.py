"""`python -m app.command_line`: how the commands start each other, whatever is on PATH."""

from app.command_line.main import main

main()
