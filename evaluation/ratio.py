"""A sum over a sum, and what it is when there is nothing below."""


def ratio(numerator: float, denominator: float) -> float:
    """Numerator over denominator, both at least 0; over 0 it is infinite, and nan for 0 over 0."""
    if denominator > 0.0:
        return float(numerator) / float(denominator)
    return float("inf") if numerator > 0.0 else float("nan")
