"""Numbers and labels as people read them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc.data.wording import join_words, percent, step_of, write_exact, write_label, write_name, write_number

NUMBERS = st.floats(min_value=-1e300, max_value=1e300)


@pytest.mark.parametrize(
    ("value", "spread", "beside", "said"),
    [
        (26.1234, 5.8, 24.3, "26.1"),
        (26.0, 5.8, 24.3, "26"),
        (24.34, 5.8, 24.3, "24.34"),
        (24.300001, 5.8, 24.3, "24.300001"),
        (1512.4, 500.0, 2000.0, "1,512"),
        (-0.0001, 1.0, 0.5, "0"),
        (-0.0, 1.0, 0.5, "0"),
        (0.0, None, 0.0, "0"),
        (1.0265e12, 1e10, 1e12, "1,026,500,000,000"),
        (1.2346e-9, 3e-10, 9e-10, "1.235e-9"),
        (0.00012346, None, 0.0002, "0.0001235"),
        (3e20, 1e19, 2.9e20, "3e20"),
        (math.inf, 1.0, 0.0, "inf"),
        (math.nan, 1.0, 0.0, "nan"),
        (5e-324, None, 0.0, "0"),
    ],
)
def test_numbers_have_the_digits_that_spread_and_change_need(value, spread, beside, said):
    assert write_number(value, step_of(spread, value, beside)) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2000.0, "2,000"),
        (2000.5, "2,000.5"),
        (-0.0, "0"),
        (0.10000000149011612, "0.1"),
        (0.1 + 0.2, "0.3"),
        (1e-9, "1e-9"),
        (1.5e20, "1.5e20"),
        (1234567.25, "1,234,567.25"),
        (-3.0, "-3"),
    ],
)
def test_numbers_that_were_given_keep_their_digits(value, said):
    assert write_exact(value) == said


@given(NUMBERS, st.one_of(st.none(), st.floats(min_value=1e-12, max_value=1e12)), NUMBERS)
def test_any_number_is_written_to_within_its_step(value, spread, beside):
    step = step_of(spread, value, beside)
    for said in (write_number(value, step), write_exact(value)):
        assert not re.fullmatch(r"-0|.*\.0*|.*\.\d*0", said)
        slack = max(step, 1e-9 * abs(value), 1e-300)
        assert abs(float(said.replace(",", "")) - value) <= slack


def test_numbers_at_the_ends_of_all_floats_are_written():
    for value in (5e-324, -5e-324, 1.7e308, -1.7e308):
        for spread in (None, 5e-324, 1.7e308):
            assert write_number(value, step_of(spread, value, -value))


def test_numbers_that_differ_are_told_apart():
    for gap in (10.0**k for k in range(-10, 6)):
        step = step_of(10.0, 40.0, 40.0 + gap)
        assert write_number(40.0, step) != write_number(40.0 + gap, step)


def test_labels_names_and_parts_are_written_plainly():
    assert [write_label(item) for item in (True, 2.0, 2.5, 1000.0, "low", " \n", "two\nlines")] == [
        "True", "2", "2.5", "1000", "low", "' \\n'", "two lines",
    ]  # fmt: skip
    assert [write_name(name) for name in ("age", "v[0]", "number of children", "a and\nb", "100 %", "年齢", "")] == [
        "age", "v[0]", "number of children", "a and b", "'100 %'", "年齢", "''",
    ]  # fmt: skip
    shares = [percent(share) for share in (0.0, 1e-9, 0.5, 0.9999, 1.0)]
    assert shares == ["0 %", "less than 1 %", "50 %", "more than 99 %", "100 %"]
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
