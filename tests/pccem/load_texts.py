"""Loads and evaluates model texts, one after the other; run apart, because a bad one may crash.

Reads a JSON list of texts and a count of columns from standard input, prints how many LightGBM
refused and how many it scored.
"""

import json
import sys

import numpy as np

from pccem.model import loaded, log_odds


def rows(n_columns: int) -> np.ndarray:
    """Numbers of every sort, missing ones among them."""
    values = [-1e300, -3.5, -1.0, 0.0, 0.5, 1.0, 2.0, 31.0, 32.0, 1e9, 1e300, np.nan]
    shifted = [np.roll(values, place) for place in range(n_columns)]
    return np.array(shifted).T.copy()


def main() -> None:
    texts, n_columns = json.load(sys.stdin)
    refused = 0
    for text in texts:
        try:
            sums = log_odds(loaded(text), rows(n_columns), 1)
        except ValueError:
            refused += 1
            continue
        assert np.isfinite(sums).all(), text
    sys.stdout.write(json.dumps({"refused": refused, "scored": len(texts) - refused}))


if __name__ == "__main__":
    main()
