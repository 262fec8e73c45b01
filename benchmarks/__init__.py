"""Benchmarks: how fast it is and what it costs, beside alternatives; docs/benchmarks.md.

core/ is measured inside this process: look-up, fits, refits, metrics, the post-click model.
http/ is measured over HTTP: calibration, ingest, slow clients, refresh of versions.
soak/ is half an hour of mixed load on the whole service. peers/ are the alternatives: other
libraries and servers, each in an environment of its own. report/ keeps results and writes the page.
`parts` lists what there is, and `python -m benchmarks` runs it.
"""

import os
from pathlib import Path

# What is measured is what runs: as `sirocco` has it, see app/cli/main.py.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
"""The checkout."""
