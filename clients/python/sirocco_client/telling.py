"""Hands what was not stored to those who asked for it; their errors stop nothing."""

import logging

from sirocco_client.batch import Batch
from sirocco_client.outbox import Buffering
from sirocco_client.verdicts import Rejection

logger = logging.getLogger(__name__)


def tell_rejected(rejections: tuple[Rejection, ...], buffering: Buffering) -> None:
    """Gives the rejections to `on_rejected`; without it, logs how many there were."""
    if not rejections:
        return
    if buffering.on_rejected is None:
        logger.warning("%d events rejected; the first: %s", len(rejections), rejections[0].error)
        return
    try:
        buffering.on_rejected(list(rejections))
    except Exception:
        logger.exception("on_rejected failed with %d events", len(rejections))


def tell_unsent(unsent: list[Batch], buffering: Buffering) -> None:
    """Gives the batches to `on_unsent`; without it, logs how many there were."""
    if not unsent:
        return
    if buffering.on_unsent is None:
        logger.error("%d events could not be sent", sum(map(len, unsent)))
        return
    try:
        buffering.on_unsent(unsent)
    except Exception:
        logger.exception("on_unsent failed with %d batches", len(unsent))
