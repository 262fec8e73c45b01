"""Groups of campaigns, such as their advertisers: what a name or a field says, and the maps of
new ones."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from calibrators.bins.codecs import pack_names, unpack_names
from calibrators.maps.calibration_map import MapColumns

GroupOf = Callable[[str], str | None]
"""What names the group of a campaign, None for none."""

LONGEST_EXPRESSION: Final = 256
"""Letters of an expression."""


class CampaignGroups:
    """The group of a campaign: the first group of a regular expression where it is found in the
    name, else None. Raises ValueError on what is no regular expression with a group.

    >>> group_of = CampaignGroups("^([^/]+)/")
    >>> group_of("advertiser/campaign"), group_of("campaign")
    ('advertiser', None)
    """

    __slots__ = ("_search", "expression")

    expression: Final[str]

    def __init__(self, expression: str) -> None:
        try:
            compiled = re.compile(expression)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from None
        if not compiled.groups:
            raise ValueError("must have a group in parentheses, whose text is the group's name")
        self.expression, self._search = expression, compiled.search

    def __call__(self, campaign: str) -> str | None:
        found = self._search(campaign)
        return None if found is None else found[1]


_OF_A_FIELD: Final = "="
"""What an expression begins with that names a field; as a regular expression it has no group."""


class FieldGroups:
    """Groups that no campaign's name says: the value of a field, such as the advertiser, that
    events and requests say beside the campaign. A refit knows the `owners` of campaigns.

    >>> FieldGroups("advertiser", {"shoes": "acme"})("shoes")
    'acme'
    """

    __slots__ = ("_owners", "expression", "field")

    expression: Final[str]
    field: Final[str]

    def __init__(self, field: str, owners: Mapping[str, str] | None = None) -> None:
        self.field, self.expression = field, _OF_A_FIELD + field
        self._owners = owners or {}

    def __call__(self, campaign: str) -> str | None:
        return self._owners.get(campaign)


StoredGroups = CampaignGroups | FieldGroups


def _stored(expression: str) -> StoredGroups:
    if expression.startswith(_OF_A_FIELD) and "(" not in expression:
        return FieldGroups(expression.removeprefix(_OF_A_FIELD))
    return CampaignGroups(expression)


@dataclass(frozen=True, slots=True, eq=False)
class GroupMaps:
    """Maps that serve campaigns without one of their own, by what their names or a field say: names
    of groups, (g,), each once, and their maps."""

    group_of: StoredGroups
    names: tuple[str, ...]
    maps: MapColumns


class GroupRows:
    """The rows of an atlas that serve groups: those from `first` on, in order of `names`."""

    __slots__ = ("_row_of", "group_of", "names")

    def __init__(self, group_of: StoredGroups, names: Sequence[str], first: int) -> None:
        """Raises ValueError on a name that stands twice."""
        self.group_of, self.names = group_of, tuple(names)
        self._row_of: Mapping[str | None, int]
        self._row_of = {name: row for row, name in enumerate(self.names, first)}
        if len(self._row_of) < len(self.names):
            raise ValueError("atlas: a group stands twice")

    def row_of(self, campaign: str) -> int:
        """The row of the group that the campaign's name says, 0 for none."""
        # Whose campaigns are whose is known in a refit alone.
        named = None if isinstance(self.group_of, FieldGroups) else self.group_of(campaign)
        return self._row_of.get(named, 0)

    def rows_of(self, names: Sequence[str]) -> Iterator[int]:
        """The rows of groups by name, 0 for one that is not here."""
        return (self._row_of.get(name, 0) for name in names)

    def to_bytes(self) -> bytes:
        """The expression and the names of the groups, as one list of names."""
        return pack_names((self.group_of.expression, *self.names))

    @classmethod
    def read(cls, data: bytes, offset: int, count: int, first: int) -> tuple[Self, int]:
        """Those of so many groups that start at offset, and the offset behind them; ValueError on
        bad bytes."""
        (expression, *names), end = unpack_names(memoryview(data), offset, 1 + count)
        return cls(_stored(expression), names, first), end
