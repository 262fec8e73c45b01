"""Spans of names: together all of them, none too large, all alike."""

from hypothesis import given
from hypothesis import strategies as st

from calibrators.bins.codecs import SEPARATOR, even_spans

# What sorts between a campaign and its versions may have to stay with them; those are tested in
# test_model_versions.py.
TEXTS = st.text(st.characters(min_codepoint=ord(SEPARATOR) + 1), max_size=3)


@given(names=st.sets(TEXTS).map(sorted), most=st.integers(1, 5))
def test_spans_hold_every_name_once_and_differ_by_one_at_most(names, most):
    spans = even_spans(names, most)
    held = [
        [name for name in names if name >= first and (behind is None or name < behind)]
        for first, behind in spans
    ]
    sizes = [len(span) for span in held]
    assert [name for span in held for name in span] == names
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(spans) == -(-len(names) // most)
