"""The method leaderboard and the experiments of the papers; not part of the installed product."""

import os

# As `sirocco` has it, see app/cli/main.py: CPU seconds of methods are those of the service.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
