"""Sums of equal-frequency bins in exact arithmetic, run by run and bin by bin."""

from fractions import Fraction


def cuts_of(weights, n):
    """array_split's cuts of whole-number weights, k W / n of others."""
    total = sum(weights, Fraction())
    if any(weight.denominator != 1 for weight in weights):
        return [total * k / n for k in range(n + 1)]
    small, larger = divmod(int(total), n)
    return [Fraction(small * k + min(k, larger)) for k in range(n + 1)]


def bin_sums_oracle(weights, values, n):
    """What of each value falls into each of the n bins, for the sorted runs of one group."""
    weights = [Fraction(float(weight)) for weight in weights]
    cuts = cuts_of(weights, n)
    sums = [Fraction()] * n
    begin = Fraction()
    for weight, value in zip(weights, values, strict=True):
        end = begin + weight
        for k in range(n):
            inside = min(end, cuts[k + 1]) - max(begin, cuts[k])
            sums[k] += max(inside, Fraction()) / weight * Fraction(float(value))
        begin = end
    return [float(value) for value in sums]
