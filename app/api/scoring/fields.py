"""Fields of scores (device, placement and the like) in calibrate requests: checked here, and what
their effects make of the probabilities that maps alone give.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from app.api.scoring.arms import CalibratedScores, ColumnsOfArm, Places, TargetScores
from app.events.schema import VALUE_OF_FIELD, are_field_values, check_fields, unknown_field
from app.settings import Settings
from app.strict_json import ValidationError
from calibrators import Atlas
from calibrators.bins.codecs import campaign_of, campaigns_of
from calibrators.fields.columns import Given
from calibrators.fields.effects import FieldEffects
from calibrators.fields.sums import OTHER, FieldColumn
from calibrators.names import JsonTexts
from calibrators.samples import Floats

Columns = Mapping[str, Given]
"""By field: the value of each score, or the one of all."""
NO_FIELDS: Final[Columns] = {}
_FEW: Final = 1024
_MOST_SOUND: Final = 1 << 14
_sound: Final[set[str]] = set()
"""Values that break no rule."""


def fields_of(
    given: Mapping[str, str | Sequence[str]] | UnsetType, scores: int, settings: Settings
) -> Columns:
    """The fields of so many scores; raises ValidationError."""
    if given is UNSET:
        return NO_FIELDS
    for name, values in given.items():
        if name not in settings.fields:
            raise ValidationError(f"fields.{name}", unknown_field(settings.fields))
        if type(values) is JsonTexts and values.number == scores:
            continue
        if isinstance(values, str):
            _check_values((values,), f"fields.{name}")
        elif len(values) != scores:
            found = f"has {len(values)} items beside {scores} scores"
            raise ValidationError(f"fields.{name}", f"{found}; the columns must be equally long")
        else:
            _check_values(values, f"fields.{name}[{{}}]")
    return given


def _check_values(values: Sequence[str], field: str) -> None:
    """ValidationError unless all may be; `field` has `{}` for their place."""
    # Most are known; to find them there takes their hashes, which the look-up of effects needs too.
    if _sound.issuperset(values):
        return
    distinct = set(values)
    if are_field_values(distinct):
        if len(_sound) >= _MOST_SOUND:
            _sound.clear()
        _sound.update(distinct)
        return
    for place, value in enumerate(values):
        if not are_field_values((value,)):
            raise ValidationError(field.format(place), VALUE_OF_FIELD, value)


def fields_of_rows(
    rows: Sequence[Mapping[str, str] | UnsetType], settings: Settings
) -> Sequence[Mapping[str, str]]:
    """What each row says, if any of them says something; raises ValidationError."""
    said = [NO_VALUES if fields is UNSET else fields for fields in rows]
    if not any(said):
        return ()
    for place, fields in enumerate(said):
        if fields:
            check_fields(fields, settings.fields, f"rows[{place}].fields")
    return said


NO_VALUES: Final[Mapping[str, str]] = {}


def columns_of_rows(rows: Sequence[Mapping[str, str]], places: Sequence[int]) -> Columns:
    """The same of the rows at these places, as columns."""
    if not rows:
        return NO_FIELDS
    chosen = [rows[place] for place in places]
    names = dict.fromkeys(name for fields in chosen for name in fields)
    return {name: [fields.get(name, OTHER) for fields in chosen] for name in names}


def check_columns(fields: Mapping[str, FieldColumn]) -> None:
    """ValidationError unless all values of binary columns may be; an empty one says nothing."""
    for name, (values, codes) in fields.items():
        if are_field_values(set(values) - {OTHER}):
            continue
        of_rows = [values[code] for code in codes.tolist()]
        for place, value in enumerate(of_rows):
            if value != OTHER and not are_field_values((value,)):
                raise ValidationError(f"fields.{name}[{place}]", VALUE_OF_FIELD, value)


def with_effects(
    found: CalibratedScores, given: TargetScores | ColumnsOfArm, effects: FieldEffects
) -> CalibratedScores:
    """The probabilities corrected by the effects of what was said of their fields."""
    fields = _given(given, effects)
    campaigns = _campaigns(found, given, effects)
    target, of_maps, atlas, rows, scores, arm, *_ = found
    probabilities: Sequence[float] | Floats
    if isinstance(of_maps, np.ndarray):
        probabilities = effects.applied(of_maps, campaigns, fields)
    else:
        probabilities = effects.applied_to_few(of_maps, campaigns, fields)
    return CalibratedScores(target, probabilities, atlas, rows, scores, arm, campaigns, fields)


def with_groups(
    rows: list[int] | Places, number: int, given: TargetScores | ColumnsOfArm, atlas: Atlas
) -> list[int] | Places:
    """The rows of n scores, of which a campaign without a map has that of the group that its
    field's value names."""
    said = (given.fields or NO_FIELDS).get(atlas.group_field or "")
    if said is None:
        return rows
    names: Sequence[Any]
    if isinstance(said, FieldColumn):
        names = [said.names[code] for code in said.codes.tolist()]
    else:
        names = [said] * number if isinstance(said, str) else list(said)
    listed = rows if isinstance(rows, list) else rows.tolist()
    found = atlas.grouped(listed if len(listed) == number else listed * number, names)
    return found if isinstance(rows, list) else np.array(found, np.int64)


def _given(given: TargetScores | ColumnsOfArm, effects: FieldEffects) -> Columns:
    if isinstance(given, TargetScores):
        return given.fields
    columns = given.fields or {}
    if len(given.scores) <= _FEW:
        # Products of effects are remembered by the values of a score.
        listed = columns.items()
        return {name: [names[code] for code in codes.tolist()] for name, (names, codes) in listed}
    return effects.coded(columns)


def _campaigns(
    found: CalibratedScores, given: TargetScores | ColumnsOfArm, effects: FieldEffects
) -> Sequence[str] | str:
    """The campaign of each score, or the one of all; none where no campaign deviates."""
    if not effects.tables[2]:
        return OTHER
    named = _named_campaigns(found, given)
    return campaign_of(named) if isinstance(named, str) else campaigns_of(named)


def _named_campaigns(
    found: CalibratedScores, given: TargetScores | ColumnsOfArm
) -> Sequence[str] | str:
    if isinstance(given, TargetScores):
        return given.campaigns if len(given.campaigns) > 1 else given.campaigns[0]
    if given.names:
        named = [given.names[number] for number in given.numbers.tolist()]
        return named if len(named) > 1 else named[0]
    # Ids of the list in force name campaigns with a map of their own; nobody else deviates.
    return _by_row(found.atlas, found.rows)


def _by_row(atlas: Atlas, rows: list[int] | NDArray[np.int64]) -> list[str]:
    campaigns = atlas.campaigns
    own = rows if isinstance(rows, list) else rows.tolist()
    return [campaigns[row - 1] if 0 < row <= len(campaigns) else OTHER for row in own]


def has_effects(parts: Sequence[CalibratedScores]) -> bool:
    """Whether any of the maps have effects of fields, which an explanation then has too."""
    return any(part.atlas.effects is not None for part in parts)
