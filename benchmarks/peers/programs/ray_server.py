"""Ray Serve with one replica: PORT, MODEL and BATCH come from the environment."""

import os
import signal

import numpy as np
import ray
from isotonic import end_with_parent, model
from ray import serve
from starlette.requests import Request

BATCH = int(os.environ["BATCH"])


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Calibration:
    """Scores in, probabilities out."""

    def __init__(self) -> None:
        self.model = model()

    async def __call__(self, request: Request):
        scores = np.array((await request.json())["scores"], float)
        found = await self.together(scores) if BATCH > 1 else self.model.predict(scores)
        return {"probabilities": found.tolist()}

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=0.002)
    async def together(self, several):
        found = self.model.predict(np.concatenate(several))
        return np.split(found, np.cumsum([len(one) for one in several])[:-1])


if __name__ == "__main__":
    end_with_parent()
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["PORT"])})
    serve.run(Calibration.bind(), route_prefix="/predict")
    signal.pause()
