"""`python -m research.reproduction` is `sirocco reproduce`."""

import sys

from app.cli.main import main

if __name__ == "__main__":
    sys.argv[:1] = ["sirocco", "reproduce"]
    main()
