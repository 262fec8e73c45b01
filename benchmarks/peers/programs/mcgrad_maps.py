"""Fits and serves with MCGrad, in its environment; a line of JSON in, one out.

{"ready": true} comes first. Columns are .npy files, (n,) each.
{"fit": {"rows", "scores", "outcomes", "weights"}} -> {"rounds"}
{"serve": {"rows", "scores"}} -> {"probabilities": file}
"""

import json
import logging
import os
import sys
import warnings

import numpy as np
import pandas as pd


def frame(rows, scores, **more):
    """The log-odds of the score are a feature of MCGrad's own; the campaign is ours."""
    return pd.DataFrame({"score": scores, "campaign": rows.astype(np.int64).astype(str), **more})


class Model:
    """The model fitted last."""

    def __init__(self):
        from mcgrad.methods import MCGrad

        self.kind, self.model = MCGrad, None

    def fit(self, rows, scores, outcomes, weights):
        positives = weights * outcomes
        labels = np.repeat([0.0, 1.0], len(rows))
        halves = np.concatenate([weights - positives, positives])
        held = halves > 1e-12
        data = frame(np.tile(rows, 2), np.tile(scores, 2), clicked=labels, weight=halves)[held]
        self.model = self.kind(lightgbm_params={"num_threads": 1})
        self.model.fit(data, "score", "clicked", "weight", ["campaign"])
        return {"rounds": len(self.model.mr)}

    def serve(self, path, rows, scores):
        found = self.model.predict(frame(rows, scores), "score", ["campaign"])
        file = path.replace("scores.npy", "probabilities.npy")
        np.save(file, np.asarray(found, float))
        return {"probabilities": file}


def answer_of(model, message):
    if "fit" in message:
        return model.fit(**{name: np.load(file) for name, file in message["fit"].items()})
    files = message["serve"]
    return model.serve(files["scores"], np.load(files["rows"]), np.load(files["scores"]))


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    model = Model()
    answer = {"ready": True}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        line = sys.stdin.readline()
        if not line:
            break
        try:
            answer = answer_of(model, json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:160]}


main()
