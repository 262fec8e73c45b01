"""Fits and serves with MCGrad, in its environment; a line of JSON in, one out.

{"ready": true} comes first. Columns are .npy files, (n,) each.
{"fit": {"rows", "scores", "outcomes", "weights"}} -> {"rounds"}
{"serve": {"rows", "scores"}} -> {"probabilities": file}
Columns of any other name are fields: codes of their values.
"""

import json
import logging
import os
import sys
import warnings

import numpy as np
import pandas as pd


def frame(rows, scores, fields, **more):
    """The log-odds of the score are a feature of MCGrad's own; the campaign and fields are ours."""
    codes = {"campaign": rows, **fields}
    names = {name: column.astype(np.int64).astype(str) for name, column in codes.items()}
    return pd.DataFrame({"score": scores, **names, **more})


class Model:
    """The model fitted last."""

    def __init__(self):
        from mcgrad.methods import MCGrad

        self.kind, self.model = MCGrad, None

    def fit(self, rows, scores, outcomes, weights, **fields):
        positives = weights * outcomes
        labels = np.repeat([0.0, 1.0], len(rows))
        halves = np.concatenate([weights - positives, positives])
        held = halves > 1e-12
        twice = {name: np.tile(column, 2)[held] for name, column in fields.items()}
        more = {"clicked": labels[held], "weight": halves[held]}
        data = frame(np.tile(rows, 2)[held], np.tile(scores, 2)[held], twice, **more)
        self.model = self.kind(lightgbm_params={"num_threads": 1})
        self.model.fit(data, "score", "clicked", "weight", ["campaign", *fields])
        return {"rounds": len(self.model.mr)}

    def serve(self, path, rows, scores, **fields):
        found = self.model.predict(frame(rows, scores, fields), "score", ["campaign", *fields])
        file = path.replace("scores.npy", "probabilities.npy")
        np.save(file, np.asarray(found, float))
        return {"probabilities": file}


def answer_of(model, message):
    if "fit" in message:
        return model.fit(**{name: np.load(file) for name, file in message["fit"].items()})
    files = message["serve"]
    return model.serve(files["scores"], **{name: np.load(file) for name, file in files.items()})


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
