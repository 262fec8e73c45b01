"""Fits and looks up with netcal or betacal, in their environment; a line of JSON in, one out.

{"fit": method, "scores": file, "outcomes": file} -> {"seconds"}
{"counts": [...], "scores": file} -> {"seconds", "probabilities": file}
"""

import json
import os
import sys
import warnings
from time import process_time

import numpy as np


def methods(library):
    """A model of each method, not fitted yet."""
    if library == "betacal":
        from betacal import BetaCalibration

        return {"beta": BetaCalibration}
    from netcal.binning import BBQ, IsotonicRegression
    from netcal.scaling import BetaCalibration

    return {"bbq": BBQ, "isotonic": IsotonicRegression, "beta": BetaCalibration}


class Library:
    """The model fitted last."""

    def __init__(self, name):
        self.name, self.methods = name, methods(name)
        self.model = None

    def fit(self, message):
        scores, outcomes = np.load(message["scores"]), np.load(message["outcomes"])
        if self.name == "betacal":
            scores = scores.reshape(-1, 1)
        begun = process_time()
        self.model = self.methods[message["fit"]]()
        self.model.fit(scores, outcomes)
        return {"seconds": process_time() - begun}

    def look_up(self, message):
        pieces = np.split(np.load(message["scores"]), np.cumsum(message["counts"])[:-1])
        ask = self.model.predict if self.name == "betacal" else self.model.transform
        begun = process_time()
        found = [ask(piece) for piece in pieces]
        seconds = process_time() - begun
        file = message["scores"].replace("scores.npy", "probabilities.npy")
        np.save(file, np.concatenate([np.asarray(piece, float).ravel() for piece in found]))
        return {"seconds": seconds, "probabilities": file}


def main():
    warnings.simplefilter("ignore")
    # What the libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    library = Library(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        try:
            answer = library.fit(message) if "fit" in message else library.look_up(message)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:160]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
