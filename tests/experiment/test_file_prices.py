"""Prices in an experiment file: read, refused where they contradict each other, and no part of any request."""

from decimal import Decimal

import msgspec
import pytest

from pipeline.domain import Experiment, OwnPrice, Price
from pipeline.errors import ConfigError
from pipeline.experiment import prices
from pipeline.ids import ExperimentName, digest
from tests.experiment.test_expansion import a_file, default_mode, runs_of

PRICED = "{provider: openai, model: [m, n], price: {input: 0.1, output: 1e-3, cached: 0}}"


def an_experiment(*own: OwnPrice) -> Experiment:
    return Experiment(
        name=ExperimentName("e"),
        samples=digest(b"samples"),
        pairs=digest(b"pairs"),
        attempts=3,
        max_requests=None,
        max_bytes=None,
        segments=None,
        runs=(),
        prices=own or msgspec.UNSET,
    )


def test_a_price_holds_for_every_model_of_its_judge_in_its_mode() -> None:
    price = Price(input=Decimal("0.1"), output=Decimal("0.001"), cached=Decimal(0))
    assert prices(a_file(PRICED), default_mode) == tuple(
        OwnPrice(provider="openai", model=model, mode="batch", price=price) for model in ("m", "n")
    )


def test_a_price_changes_no_run() -> None:
    plain = a_file("{provider: openai, model: [m, n]}")
    assert [run.digest() for run in runs_of(a_file(PRICED))] == [run.digest() for run in runs_of(plain)]


def test_judges_that_differ_in_their_price_alone_are_the_same_judge() -> None:
    with pytest.raises(ConfigError, match="repeats judges"):
        a_file("{provider: openai, model: m}, {provider: openai, model: m, price: {input: 1, output: 2}}")


def test_two_prices_for_one_model_in_one_mode_are_refused() -> None:
    two = "{provider: openai, model: m, price: {input: 1, output: 2}}, "
    two += "{provider: openai, model: m, reasoning: low, price: {input: 1, output: 3}}"
    with pytest.raises(ConfigError, match=r"judges\[1\]\.price is another than .* for openai, m, batch"):
        prices(a_file(two), default_mode)
    live = two.replace("reasoning: low", "mode: live")
    assert [each.mode for each in prices(a_file(live), default_mode)] == ["batch", "live"]


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ("{input: 1, outptu: 2}", "judges[0].price.outptu is not a known key; did you mean output?"),
        ("{input: 1}", "judges[0].price.output is missing; add USD for a million tokens"),
        ("{input: -1, output: 2}", "judges[0].price.input is -1; it must be USD for a million tokens"),
        ("{input: .nan, output: 2}", "judges[0].price.input: .nan is not a finite number"),
        ("3", "judges[0].price is 3; it must be a mapping, such as {input: 0.05, output: 0.25}"),
    ],
)
def test_a_wrong_price_is_refused_with_what_to_write(price: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        a_file(f"{{provider: openai, model: m, price: {price}}}")
    assert words in str(raised.value)


def test_an_experiment_without_prices_is_frozen_as_before_and_one_with_them_comes_back() -> None:
    assert b"prices" not in msgspec.json.encode(an_experiment())
    priced = an_experiment(
        OwnPrice(provider="p", model="m", mode="batch", price=Price(input=Decimal("0.1"), output=Decimal(1)))
    )
    assert msgspec.json.decode(msgspec.json.encode(priced), type=Experiment) == priced
    assert not priced.is_led_like(an_experiment())
