"""Rows with two fields and a number, made without a random generator, so that recorded numbers
stay."""

import numpy as np


def parts_of_one(step, n):
    """Even over [0, 1), and never the same twice."""
    return np.arange(1, n + 1) * step % 1.0


def field_log(n=4000, digits=None):
    """Probabilities, outcomes, weights, and fields; device 1 at place 3 is 60 % too low."""
    device = np.floor(5 * parts_of_one(0.5772156649015329, n) ** 1.2).astype(int)
    place = np.floor(7 * parts_of_one(0.9159655941772190, n) ** 1.4).astype(int)
    p = 0.01 + 0.4 * parts_of_one(0.6180339887498949, n) ** 2
    p = p if digits is None else p.round(digits)
    lift = np.where((device == 1) & (place == 3), 1.6, 1.0)
    y = (parts_of_one(0.4142135623730951, n) < p * lift).astype(float)
    weights = 0.5 + parts_of_one(0.7320508075688772, n)
    age = np.floor(80 * parts_of_one(0.23606797749979, n))
    return p, y, weights, {"device": device, "place": place}, age
