"""Colours of the style sheet: they stand out, and are told apart with any eyes."""

import re
from importlib.resources import files
from itertools import combinations, product

import numpy as np
import pytest

from app.reports.drawing import COLOURS, VARIABLES, series_style, style_numbers

STYLE = files("app.reports").joinpath("style.css").read_text(encoding="utf-8")
LEAST_OF_GRAPHICS, LEAST_OF_TEXT, LEAST_APART = 3.0, 4.5, 8.5
# Machado et al. 2009, severity 1: how colours look without cones of one kind.
EYES = {
    "usual": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]],
    "deuteranopia": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_CONES = np.array(
    [[0.41222, 0.53633, 0.05145], [0.2119, 0.6807, 0.1074], [0.0883, 0.28172, 0.62998]]
)
TO_OKLAB = np.array(
    [[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]]
)


def scheme(name: str) -> dict[str, np.ndarray]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    found = re.findall(r"--([\w-]+): (#\w{6})", light if name == "light" else light + dark)
    return {variable: linear(colour) for variable, colour in found}


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    dark, light = sorted(float(colour @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def seen(colour: np.ndarray, eyes: str) -> np.ndarray:
    """In the space Oklab, where distances are as far apart as they look."""
    felt = np.clip(np.asarray(EYES[eyes]) @ colour, 0, 1)
    return 100 * TO_OKLAB @ np.cbrt(TO_CONES @ felt)


each_scheme = pytest.mark.parametrize("name", ["light", "dark"])


@each_scheme
def test_words_stand_out_from_every_ground(name):
    colours = scheme(name)
    pairs = [*product(("ink", "muted", "link"), ("paper", "card", "stripe"))]
    pairs += [("good", "card"), ("bad", "card"), ("ink", "warn-paper")]

    for word, ground in pairs:
        assert contrast(colours[word], colours[ground]) >= LEAST_OF_TEXT, (word, ground)


@each_scheme
def test_series_stand_out_from_their_card(name):
    colours = scheme(name)

    for place in range(1, COLOURS + 1):
        assert contrast(colours[f"series-{place}"], colours["card"]) >= LEAST_OF_GRAPHICS


@each_scheme
@pytest.mark.parametrize("eyes", EYES)
def test_series_are_told_apart(name, eyes):
    colours = [seen(scheme(name)[f"series-{place}"], eyes) for place in range(1, COLOURS + 1)]
    apart = [float(np.linalg.norm(one - other)) for one, other in combinations(colours, 2)]

    assert min(apart) >= LEAST_APART


def test_series_differ_without_any_colour_too():
    styles = [series_style(place) for place in range(COLOURS)]

    assert len({style.marker for style in styles}) == COLOURS
    assert len({style.outline for style in styles}) == COLOURS
    assert len({style.dashes for style in styles}) == COLOURS


def test_more_series_than_colours_still_differ():
    numbers = style_numbers(["raw", "truth", *(f"name {place}" for place in range(18))])
    styles = {series_style(number) for number in numbers.values()}

    assert len(styles) == len(numbers) == 20


def test_a_known_name_twice_is_not_one_series():
    assert style_numbers(["raw", "none"]) == {"raw": 0, "none": 1}


def test_every_colour_of_a_drawing_is_in_the_style_sheet():
    for variable in VARIABLES.values():
        assert f"{variable[4:-1]}:" in STYLE
