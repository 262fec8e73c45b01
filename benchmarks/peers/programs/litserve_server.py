"""LitServe with one worker, on the CPU: PORT, MODEL and BATCH come from the environment."""

import os

import litserve
import numpy as np
from isotonic import end_with_parent, model

BATCH = int(os.environ["BATCH"])


class Calibration(litserve.LitAPI):
    """Scores in, probabilities out."""

    def setup(self, device):
        self.model = model()

    def decode_request(self, request):
        return request["scores"]

    def predict(self, scores):
        if BATCH == 1:
            return self.model.predict(scores)
        found = self.model.predict(np.concatenate(scores))
        return np.split(found, np.cumsum([len(one) for one in scores])[:-1])

    def batch(self, inputs):
        return inputs

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"probabilities": output.tolist()}


if __name__ == "__main__":
    end_with_parent()
    api = Calibration(max_batch_size=BATCH, batch_timeout=0.002 if BATCH > 1 else 0.0)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        log_level="warning",
        generate_client_file=False,
        access_log=False,
    )
