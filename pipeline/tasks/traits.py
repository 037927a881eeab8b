"""What a judge can be asked to look at: the built-in criteria, by name."""

from pipeline.domain import Criterion
from pipeline.errors import ConfigError
from pipeline.wording import nearest

_OWN = "the criterion stated here"  # the name of a criterion of which only the words are known

NO_CRITERION = Criterion(name="", description="")  # of a task that judges by none

TRAITS: dict[str, Criterion] = {
    "overall_quality": Criterion(
        name="Overall quality",
        description=(
            "How well the text as a whole does what it sets out to do. Weigh together what it says (relevance, "
            "accuracy, depth, support), how it is built (order, connection, completeness) and how it is put (clarity, "
            "tone, correctness), and give most weight to whatever matters most to its readers. A strong point in one "
            "respect can make up for a weak one in another."
        ),
    ),
    "organization": Criterion(
        name="Organization",
        description=(
            "How well the text is arranged. Its purpose is recognizable early, the parts come in an order that helps "
            "the reader, each paragraph or sentence follows from the one before, connections are marked where they "
            "are needed, and the end rounds off what was begun. Whether the claims are right or well worded is not "
            "the question."
        ),
    ),
    "clarity": Criterion(
        name="Clarity",
        description=(
            "How easily a reader understands what is meant. Sentences can be followed at first reading, words are "
            "precise, references are unambiguous, terms that need it are explained, and nothing has to be guessed. "
            "Whether the content is right or complete is not the question."
        ),
    ),
    "evidence": Criterion(
        name="Evidence and reasoning",
        description=(
            "How well the text supports what it claims. Reasons, examples, facts or sources are given, they bear on "
            "the claim and are sufficient for it, the steps from reason to conclusion hold, and objections or limits "
            "are taken into account. Confident wording without support counts for nothing."
        ),
    ),
    "style": Criterion(
        name="Style",
        description=(
            "How well the text is written as prose. Word choice is apt and varied, sentences have rhythm and are no "
            "longer than they need to be, and the tone suits audience and purpose throughout. What the text claims, "
            "and whether it is right, is not the question."
        ),
    ),
    "conventions": Criterion(
        name="Conventions",
        description=(
            "How free the text is of errors in grammar, spelling, punctuation and usage, in the variety of the "
            "language that it is written in. Errors that hinder understanding weigh more than slips. A long text is "
            "not worse because it offers more room for errors: look at how frequent and how grave they are."
        ),
    ),
    "helpfulness": Criterion(
        name="Helpfulness",
        description=(
            "How well the text serves the person who asked for it. It addresses what was asked, is correct and "
            "complete enough to act on, says plainly what it does not know, keeps to constraints that were set, and "
            "spares the reader what is of no use. Length, politeness and formatting count only as far as they help."
        ),
    ),
}


def criterion_named(name: str) -> Criterion:
    """Return the built-in criterion of this name.

    Raises:
        ConfigError: if there is none.

    """
    if name not in TRAITS:
        near = nearest(name, TRAITS)
        meant = f"did you mean {near}? " if near else ""
        raise ConfigError(
            f"criterion: {name!r} is not a built-in criterion; {meant}built in are {', '.join(TRAITS)}; "
            "for one of your own write {name: …, description: …}"
        )
    return TRAITS[name]


def criterion_of(own: str | None, default: Criterion) -> Criterion:
    """Return what a sample's own criterion means: a built-in one if it names one, else the words themselves."""
    if own is None:
        return default
    return TRAITS.get(own) or Criterion(name=_OWN, description=own)
