"""The contenders of a contest on given terms: how far they look back, how large their bins are."""

from dataclasses import dataclass
from typing import Final

from app.command_line.errors import CommandError
from calibrators import PerCampaign, make_calibrator
from evaluation.contest import CONTENDERS, PER_CAMPAIGN, Contender, MethodContender
from evaluation.contest.published_sir import PublishedSir

_SIR: Final = "sir_published"


@dataclass(frozen=True, slots=True)
class Terms:
    """Hours that methods of one campaign at a time look back, and samples in a bin of sir."""

    hours: int = 24
    bin_size: int = 1000


def chosen_contenders(names: str | None) -> list[str]:
    """The contenders of a list with commas, all of them without one."""
    return chosen("--contenders", names, list(CONTENDERS))


def chosen(option: str, names: str | None, known: list[str]) -> list[str]:
    """The names of a list with commas; a `CommandError` unless all are known."""
    if names is None:
        return known
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or not set(wanted) <= set(known):
        raise CommandError(f"{option} {names!r}: give some of {', '.join(known)}, comma-separated")
    return list(dict.fromkeys(wanted))


def made(name: str, terms: Terms | None = None) -> Contender:
    """The contender of this name; those that pool campaigns keep windows of their own."""
    usual = CONTENDERS[name]()
    if terms is None or terms == Terms():
        return usual
    if name == _SIR:
        return MethodContender(_SIR, PublishedSir(terms.bin_size, terms.hours), usual.note)
    if name in PER_CAMPAIGN:
        calibrator = make_calibrator(name, terms.bin_size)
        return MethodContender(name, PerCampaign(calibrator, hours=terms.hours), usual.note)
    return usual
