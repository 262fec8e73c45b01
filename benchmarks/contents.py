"""The parts, each a module of its name, in the order in which they are run and shown."""

NAMES = (
    "look_up",
    "calibrate",
    "encodings",
    "connections",
    "client",
    "ingest",
    "refit",
    "refresh",
    "fit",
    "pooled",
    "pccem",
    "click_log",
    "delayed",
    "drift",
    "evaluate",
    "grid",
    "metrics",
    "guard",
    "attacks",
    "soak",
)
