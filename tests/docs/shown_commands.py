"""The commands whose output README.md shows, and what they print."""

import re
from dataclasses import dataclass

from tests.docs.pages import code_blocks, text_of

_PROMPT = re.compile(r"\$ \.venv/bin/sirocco (?P<line>[^\n]+)\n(?P<output>.*)", re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command without its first word, and its output as the page shows it."""

    line: str
    output: str

    @property
    def words(self) -> list[str]:
        """The words of the output: pages break lines where a terminal does not."""
        return self.output.split()


def shown_commands() -> list[Shown]:
    """In the order of the page."""
    found = (_PROMPT.fullmatch(block) for block in code_blocks(text_of("README.md"), ""))
    return [Shown(match["line"], match["output"]) for match in found if match]
