"""Numbers as a page prints them."""

import math

from tutelage.reports.words import number, p_value, percent, signed_points, thousands


def test_numbers_as_text():
    assert (percent(0.4567), percent(0.0056, 2), percent(math.nan)) == ("45.7 %", "0.56 %", "–")
    assert (signed_points(-0.04), signed_points(0.125)) == ("−4.0", "+12.5")
    assert (p_value(0.0001, "= "), p_value(0.03, "= "), p_value(0.5)) == ("< 0.001", "= 0.030", "0.500")
    assert (number(1.26), number(None), number(math.nan)) == ("1.3", "–", "–")
    assert (thousands(1234567), thousands(0), thousands(None), thousands(1.5)) == ("1 234 567", "0", "–", "–")
