"""docs/proof.md has the tables of the worlds with fields that are made of the kept results."""

import json

from research.leaderboard.fields.tables import as_markdown
from tests.docs.pages import ROOT, text_of


def test_the_tables_of_worlds_with_fields_are_those_of_the_kept_results():
    """A failure shows the tables to paste."""
    results = json.loads((ROOT / "docs/proof/fields.json").read_text())
    page = text_of("docs/proof.md")

    missing = [part for part in as_markdown(results).split("\n\n") if part.strip() not in page]
    assert missing == [], "\n\n".join(missing)
