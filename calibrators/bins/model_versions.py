"""Which model made a score: campaigns of a named version of it have names of their own in tables of
bins and in atlases.

Such a name is that of the campaign, U+001E, and the version. Whatever takes campaigns apart, such
as bins, guard and look-up, so takes them apart by version, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from calibrators.bins.codecs import SEPARATOR as SEPARATOR
from calibrators.bins.codecs import campaign_of as campaign_of
from calibrators.bins.table import BinsTable

LONGEST_VERSION: Final = 64
"""Bytes of a version's name."""

MOST_VERSIONS: Final = 8
"""Named versions of a target at a time that have maps of their own."""

VERSION_RULE: Final = f"must have 1 to {LONGEST_VERSION} bytes of UTF-8, all printable"


def is_version(version: str) -> bool:
    """Whether a version of a model may have this name."""
    return version.isprintable() and 0 < len(version.encode()) <= LONGEST_VERSION


def named(campaign: str, version: str | None) -> str:
    """The name of a campaign's impressions that this version has scored, None being no version."""
    return campaign if version is None else f"{campaign}{SEPARATOR}{version}"


def parted(name: str) -> tuple[str, str | None]:
    """Campaign and version of such a name.

    >>> parted(named("shoes", "v2")), parted("shoes")
    (('shoes', 'v2'), ('shoes', None))
    """
    campaign, separator, version = name.partition(SEPARATOR)
    return campaign, version if separator else None


def names_by_version(known: Sequence[str], campaigns: Iterable[str]) -> list[str]:
    """The names of these campaigns, without a version and of each that any known name is of."""
    found = [*campaigns]
    if SEPARATOR not in "".join(known):
        return found
    versions = dict.fromkeys(parted(name)[1] for name in known)
    return [named(campaign, version) for version in {None: None} | versions for campaign in found]


def by_version(table: BinsTable) -> Mapping[str | None, BinsTable]:
    """The parts of a table by version, with the campaigns' own names; what has a version and no
    campaign is left out."""
    if not table.has_versions:
        return {None: table}
    found = [parted(name) for name in table.campaigns]
    tables = {}
    for version in dict.fromkeys(each for campaign, each in found if campaign or each is None):
        held = [each == version and bool(campaign or each is None) for campaign, each in found]
        chosen = table.chosen(np.array(held, dtype=bool))
        tables[version] = chosen.renamed([*map(campaign_of, chosen.campaigns)])
    return tables
