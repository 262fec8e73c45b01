"""`python -m research.leaderboard` is `sirocco backtest --compare`."""

import sys

from app.cli.main import main

if __name__ == "__main__":
    sys.argv[:1] = ["sirocco", "backtest", "--compare"]
    main()
