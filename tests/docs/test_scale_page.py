"""docs/scale.md has the tables that `python -m benchmarks.scale` makes of recorded figures."""

from benchmarks.scale import tables
from tests.docs.pages import text_of


def test_the_tables_of_the_page_are_made_by_the_command():
    """A failure shows the table to paste."""
    page = text_of("docs/scale.md")
    made = tables()

    assert len(made) == 5
    assert [table for table in made if table not in page] == []
