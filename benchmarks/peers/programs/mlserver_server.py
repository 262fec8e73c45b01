"""MLServer: PORT, MODEL and WORKERS (of its pool, 0 for none) come from the environment.

It does not ask for httptools, so uvicorn parses without it, unless HTTPTOOLS is set.
"""

import asyncio
import os
import sys

if "HTTPTOOLS" not in os.environ:
    sys.modules["httptools"] = None

from isotonic import end_with_parent, model
from mlserver import MLModel, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.server import MLServer
from mlserver.types import InferenceResponse


class Calibration(MLModel):
    """Scores in, probabilities out."""

    async def load(self):
        self._model = model()
        return True

    async def predict(self, payload):
        scores = NumpyCodec.decode_input(payload.inputs[0]).ravel()
        output = NumpyCodec.encode_output("probabilities", self._model.predict(scores))
        return InferenceResponse(model_name=self.name, outputs=[output])


async def main():
    """Serve until told to stop."""
    port = int(os.environ["PORT"])
    settings = Settings(
        host="127.0.0.1",
        http_port=port,
        grpc_port=int(os.environ["PORT_2"]),
        metrics_port=int(os.environ["PORT_3"]),
        metrics_endpoint=None,
        parallel_workers=int(os.environ["WORKERS"]),
        debug=False,
        gzip_enabled=False,
        load_models_at_startup=False,
    )
    await MLServer(settings).start([ModelSettings(name="calibration", implementation=Calibration)])


if __name__ == "__main__":
    end_with_parent()
    asyncio.run(main())
