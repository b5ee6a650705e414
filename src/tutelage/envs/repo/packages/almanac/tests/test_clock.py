import pytest

from almanac.clock import clock, minutes_of, night_minutes, round_to, seconds_of, show


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h 5m 30s", 3930), ("90m", 5400), ("45", 45), ("2d", 172_800), ("1m30", 90), ("", 0)]
)
def test_seconds_of(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["h", "5x", "1h-2m"])
def test_seconds_of_refuses(text):
    with pytest.raises(ValueError):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3930, "1h 5m"), (59, "59s"), (60, "1m"), (0, "0s"), (86_401, "1d 1s"), (-90, "-1m 30s")]
)
def test_show(seconds, text):
    assert show(seconds) == text


def test_show_more_parts():
    assert show(3930, parts=3) == "1h 5m 30s"
    assert show(3930, parts=1) == "1h"


@pytest.mark.parametrize(("minutes", "text"), [(0, "00:00"), (1025, "17:05"), (1439, "23:59"), (1440, "00:00")])
def test_clock(minutes, text):
    assert clock(minutes) == text


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "12:00 am"), (59, "12:59 am"), (719, "11:59 am"), (720, "12:00 pm"), (1025, "5:05 pm")]
)
def test_clock_of_twelve_hours(minutes, text):
    assert clock(minutes, twelve=True) == text
    assert minutes_of(text) == minutes


def test_minutes_of():
    assert minutes_of("17:05") == 1025
    assert minutes_of("23:59") == 1439


@pytest.mark.parametrize("text", ["24:00", "12:60", "13:00 pm", "0:10 am"])
def test_minutes_of_refuses(text):
    with pytest.raises(ValueError):
        minutes_of(text)


@pytest.mark.parametrize(("minutes", "rounded"), [(0, 0), (7, 0), (8, 15), (22, 15), (23, 30)])
def test_round_to_quarters(minutes, rounded):
    assert round_to(minutes) == rounded


def test_round_to_halves_go_up():
    assert round_to(5, step=10) == 10
    assert round_to(4, step=10) == 0


def test_night_minutes():
    assert night_minutes(1200, 360) == 480
    assert night_minutes(600, 900) == 0
    assert night_minutes(300, 420) == 60


def test_night_minutes_of_a_whole_day():
    assert night_minutes(600, 600) == 480


def test_night_minutes_of_own_night():
    assert night_minutes(1380, 120, low=1400, high=60) == 100
