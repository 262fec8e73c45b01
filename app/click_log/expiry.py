"""Expiry: partitions of an age go as a whole, those in quarantine too."""

from app.click_log.folder import Folder
from app.click_log.partitions import DATASETS, QUARANTINE, Partition

_PREFIXES = ("", f"{QUARANTINE}/")


def expire(folder: Folder, before: float) -> int:
    """Delete every partition that is over `before` (epoch seconds); returns how many went."""
    expired = 0
    for prefix in _PREFIXES:
        for dataset in DATASETS:
            over = _over(folder, prefix + dataset, before)
            for path in sorted({_largest_over(partition, before) for partition in over}):
                folder.delete_folder(prefix + path)
            expired += len(over)
    return expired


def _over(folder: Folder, path: str, before: float) -> set[Partition]:
    found = {Partition.of_path(entry.path) for entry in folder.entries(path)}
    return {partition for partition in found if partition and partition.ends <= before}


def _largest_over(partition: Partition, before: float) -> str:
    """The folder of the whole day, once nobody writes into it any more."""
    return partition.date_path if partition.day_ends <= before else partition.path
