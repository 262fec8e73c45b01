"""Each mutant can still be made: what it replaces stands exactly once in the product."""

from tests.mutation.__main__ import ROOT, product
from tests.mutation.mutants import MUTANTS


def test_each_mutant_has_one_place():
    texts = [path.read_text(encoding="utf-8") for path in product(ROOT)]

    counts = {mutant.name: sum(text.count(mutant.old) for text in texts) for mutant in MUTANTS}

    assert {name: count for name, count in counts.items() if count != 1} == {}
