"""What a long-lived process says about itself."""

import logging


def log_to_stderr() -> None:
    """One line for every event worth knowing, refits among them."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
