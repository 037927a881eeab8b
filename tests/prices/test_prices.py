"""The price book and the arithmetic of what is asked for and what was answered."""

from collections import Counter
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Judge, OwnPrice, Price
from pipeline.prices import (
    Estimate,
    Load,
    Span,
    Spent,
    Term,
    Used,
    answer_tokens,
    as_number,
    estimate,
    in_all,
    spent_on,
    terms_of,
    told,
    usd,
    usd_span,
)
from pipeline.prices.book import rows

TODAY = date(2026, 11, 18)
AMOUNTS = st.decimals(min_value=0, max_value=10**6, places=9)
PRICES = st.builds(Price, input=AMOUNTS, output=AMOUNTS, cached=st.none() | AMOUNTS)
LOADS = st.builds(
    Load,
    requests=st.integers(1, 10**6),
    later=st.integers(0, 10**5),
    bytes=st.integers(0, 10**10),
    largest=st.integers(0, 10**6),
)
SPANS = st.builds(lambda low, more: Span(low=low, high=low + more), st.integers(0, 10**4), st.integers(0, 10**5))
USED = st.integers(0, 10**8).flatmap(
    lambda sent: st.builds(
        Used, rows=st.integers(0, 10**6), input=st.just(sent), cached=st.integers(0, sent), output=st.integers(0, 10**8)
    )
)


def a_load(**more: int) -> Load:
    return Load(**{"requests": 10, "later": 0, "bytes": 12_000, "largest": 1_200, **more})


def test_every_row_of_the_book_says_when_and_where_it_was_read_and_no_batch_is_dearer() -> None:
    for row in rows():
        assert row.source
        assert row.as_of <= TODAY
        if row.batch is not None:
            assert row.batch.input <= row.standard.input
            assert row.batch.output <= row.standard.output


@pytest.mark.parametrize("day", [TODAY, date(2027, 1, 1)])
@pytest.mark.parametrize("tokens", [1, 100_000, 100_001, 300_000])
def test_no_model_has_two_prices_for_one_prompt_on_one_day(day: date, tokens: int) -> None:
    holding = Counter(
        (row.provider, row.model)
        for row in rows()
        if row.since <= day <= row.until and row.above < tokens <= (row.up_to or tokens)
    )
    assert set(holding.values()) == {1}


def test_a_batch_has_the_batch_price_and_a_live_call_the_standard_one() -> None:
    for row in rows():
        batch, live = (terms_of(row.provider, row.model, mode) for mode in ("batch", "live"))
        assert row.standard in [term.price for term in live]
        assert row.batch is None or row.batch in [term.price for term in batch]
        assert len(batch) == sum(one.batch is not None for one in rows() if one.model == row.model)


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "gpt-6.1-terra"), ("anthropic", "claude-fable-5-2"), ("azure", "gpt-6-luna")]
)
def test_a_price_that_nobody_read_is_not_known(provider: str, model: str) -> None:
    assert terms_of(provider, model, "batch") == ()


def test_a_price_of_the_file_wins_in_its_mode_only() -> None:
    price = Price(input=Decimal(7), output=Decimal(8))
    own = [OwnPrice(provider="openai", model="gpt-6-luna", mode="live", price=price)]
    assert terms_of("openai", "gpt-6-luna", "live", own=own) == (Term(price=price),)
    assert terms_of("openai", "gpt-6-luna", "batch", own=own) == terms_of("openai", "gpt-6-luna", "batch")


def test_an_estimate_takes_the_price_of_its_day_and_none_where_no_price_holds() -> None:
    answer = Span(low=100, high=100)
    live, batch = (terms_of("gemini", "gemini-3.8-flash", mode) for mode in ("live", "batch"))
    before, after = (estimate(a_load(), answer, live, day) for day in (date(2026, 12, 31), date(2027, 1, 1)))
    assert before is not None
    assert after is not None
    assert after.high == 2 * before.high
    assert estimate(a_load(), answer, batch, TODAY) is not None
    assert estimate(a_load(), answer, batch, date(2027, 1, 1)) is None


def test_long_prompts_widen_an_estimate_or_leave_it_unknown() -> None:
    answer = Span(low=100, high=100)
    haiku, luna = terms_of("anthropic", "claude-haiku-5-5", "batch"), terms_of("openai", "gpt-6-luna", "batch")
    plain, long = (estimate(a_load(largest=size), answer, haiku, TODAY) for size in (300_000, 300_003))
    assert plain is not None
    assert long is not None
    assert (long.low, long.high) == (plain.low, 5 * plain.high)
    assert estimate(a_load(largest=3 * 272_000), answer, luna, TODAY) is not None
    assert estimate(a_load(largest=3 * 272_000 + 1), answer, luna, TODAY) is None


def test_an_estimate_by_hand() -> None:
    term = Term(price=Price(input=Decimal("0.05"), output=Decimal("0.25")), as_of=TODAY)
    found = estimate(a_load(), Span(low=10, high=500), [term], TODAY)
    low = (Decimal("0.05") * 3_000 + Decimal("0.25") * 100) / 10**6
    high = (Decimal("0.05") * 4_000 + Decimal("0.25") * 5_000) / 10**6
    assert found == Estimate(low=low, high=high, as_of=frozenset({TODAY}))


@pytest.mark.parametrize(
    ("reasoning", "most", "writes", "span"),
    [
        ("none", None, False, (10, 500)),
        ("low", None, False, (10, 4_596)),
        ("low", 200, False, (10, 200)),
        ("low", 5, False, (5, 5)),
        ("none", None, True, (100, 4_096)),
        ("a level of next year", None, False, (10, 49_652)),
    ],
)
def test_output_is_assumed_by_reasoning_and_bound_by_the_judges_limit(
    reasoning: str, most: int | None, writes: bool, span: tuple[int, int]
) -> None:
    judge = Judge(provider="openai", model="m", reasoning=reasoning, max_output_tokens=most)
    found = answer_tokens(judge, writes=writes)
    assert (found.low, found.high) == span


@given(LOADS, SPANS, PRICES)
def test_the_upper_end_is_never_below_the_lower_and_later_turns_never_lessen_it(
    load: Load, answer: Span, price: Price
) -> None:
    term = Term(price=price)
    found = estimate(load, answer, [term], TODAY)
    alone = estimate(a_load(requests=load.requests, bytes=load.bytes), answer, [term], TODAY)
    assert found is not None
    assert alone is not None
    assert found.low <= found.high
    assert found.high >= alone.high


@given(st.lists(st.builds(Estimate, low=AMOUNTS, high=AMOUNTS)))
def test_the_sum_over_runs_is_the_total(runs: list[Estimate]) -> None:
    total = in_all(runs)
    assert (total.low, total.high) == (sum(run.low for run in runs), sum(run.high for run in runs))


@given(st.lists(USED, max_size=5), PRICES)
def test_what_parts_have_cost_adds_up_to_what_all_have_cost(parts: list[Used], price: Price) -> None:
    term = Term(price=price, as_of=TODAY)
    sums = {name: sum(getattr(each, name) for each in parts) for name in Used.__struct_fields__}
    whole = spent_on(Used(**sums), term)
    summed = sum((spent_on(each, term) for each in parts), Spent())
    assert summed == whole


def test_cached_input_costs_its_own_price_and_the_full_one_where_that_is_not_known() -> None:
    used = Used(rows=1, input=1_000_000, cached=400_000, output=0)
    known = Price(input=Decimal(10), output=Decimal(0), cached=Decimal(1))
    unknown = Price(input=Decimal(10), output=Decimal(0))
    assert [spent_on(used, Term(price=price)).usd for price in (known, unknown)] == [Decimal("6.4"), Decimal(10)]


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"), ("0.105", "$0.11"), ("0.995", "$1.00"), ("12.4", "$12.40"), ("1234567.891", "$1,234,567.89"),
        ("1E+3", "$1,000.00"), ("0.0544", "$0.054"), ("0.0049", "$0.0049"), ("0.00996", "$0.010"), ("0.0996", "$0.10"),
        ("0.00001", "$0.000010"), ("0.0000014", "$0.000001"), ("0.0000004", "< $0.000001"),
    ],
)  # fmt: skip
def test_money_is_shown_to_the_cent_and_below_ten_cents_to_the_second_digit(amount: str, shown: str) -> None:
    assert usd(Decimal(amount)) == shown


@given(AMOUNTS)
def test_no_amount_is_written_with_an_exponent(amount: Decimal) -> None:
    assert "E" not in usd(amount).upper().replace("USD", "")
    assert "E" not in str(as_number(amount))


def test_an_estimate_whose_ends_look_alike_is_shown_as_one() -> None:
    assert usd_span(Decimal("0.001"), Decimal("0.20")) == "$0.0010 to $0.20"
    assert usd_span(Decimal("0.20"), Decimal("0.20")) == "$0.20"


def test_the_upper_end_is_never_shown_too_small() -> None:
    assert usd_span(Decimal("0.014"), Decimal("0.514")) == "$0.014 to $0.52"
    assert usd_span(Decimal("0.0021"), Decimal("0.00991")) == "$0.0021 to $0.010"


def test_what_was_spent_is_told_as_an_estimate_with_what_it_leaves_out() -> None:
    spent = Spent(usd=Decimal("1.5"), rows=9, rows_without_tokens=2, rows_without_price=1, prices_as_of=(TODAY,))
    assert told(spent) == (
        "$1.50 at prices of 2026-11-18, an estimate, not a bill; 0 input and 0 output tokens; "
        "left out: 2 rows with no tokens; left out: 1 row with no known price"
    )
    own = Spent(usd=Decimal(2), rows=1, prices_as_of=(TODAY,), prices_of_file=True)
    assert told(own).startswith("$2.00 at prices of 2026-11-18 and of the file, an estimate, not a bill; ")
    assert told(Spent(rows=1, rows_without_price=1)).startswith("not known; ")
