"""BentoML with one worker: MODEL and BATCH come from the environment.

`bentoml serve` starts it with a worker process. Run by itself, with a PORT, it is served by uvicorn
in one process, which costs less. With batching, requests that wait are put together.
"""

import os

import bentoml
import numpy as np
import uvicorn
from isotonic import end_with_parent, model

BATCHING = os.environ["BATCH"] != "1"
end_with_parent()


@bentoml.service(
    workers=1,
    metrics={"enabled": False},
    tracing={"sample_rate": 0.0},
    logging={"access": {"enabled": False}},
)
class Calibration:
    """Scores in, probabilities out."""

    def __init__(self) -> None:
        self.model = model()

    @bentoml.api(batchable=BATCHING, max_latency_ms=1000)
    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Scores (n,) in, probabilities (n,) out."""
        return self.model.predict(scores)


if __name__ == "__main__":
    port = int(os.environ["PORT"])
    application = Calibration.to_asgi()
    uvicorn.run(application, host="127.0.0.1", port=port, access_log=False, log_level="warning")
