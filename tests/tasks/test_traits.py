import pytest

from pipeline.domain import Criterion
from pipeline.errors import ConfigError
from pipeline.tasks.traits import TRAITS, criterion_named, criterion_of


def test_the_promised_traits_are_there():
    assert {"overall_quality", "organization"} <= set(TRAITS)
    assert len(TRAITS) >= 5


@pytest.mark.parametrize("name", TRAITS)
def test_a_trait_has_a_name_and_a_description_of_its_own(name: str):
    trait = criterion_named(name)
    assert trait.name.strip()
    assert len(trait.description) > 100
    assert "  " not in trait.description
    assert [other for other in TRAITS.values() if other.description == trait.description] == [trait]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("organisation", "'organisation' is not a built-in criterion; did you mean organization?"),
        ("Overall_Quality", "did you mean overall_quality?"),
        ("xyz", "criterion; built in are overall_quality, organization"),
        ("", "criterion; built in are overall_quality"),
        ("coherence", "criterion; built in are overall_quality"),
        ("Overall_Quality", "built in are overall_quality"),
    ],
)
def test_an_unknown_trait_is_refused_with_the_nearest(name: str, words: str):
    with pytest.raises(ConfigError) as refused:
        criterion_named(name)
    assert words in str(refused.value)


def test_a_samples_own_criterion_wins():
    default = Criterion(name="Default", description="The experiment's own.")
    assert criterion_of(None, default) == default
    assert criterion_of("clarity", default) == TRAITS["clarity"]
    own = criterion_of("Does it refuse politely?", default)
    assert own.description == "Does it refuse politely?"
    assert own.name not in {"", "Default"}
