"""What an experiment file may say: its fields, their defaults and the rules between them.

A field's `description` is what a message tells the person to write there. Where the values come from is in `reading`.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from pipeline.domain import Answer, Checks, Design, Direction, Mode, Order, Tags
from pipeline.ids import EXPERIMENT_NAME, ExperimentName

Endpoint = Literal["chat", "responses"]

_LARGEST = 2**53  # whole numbers that every JSON reader keeps
_MOST_RUNS = 10_000
_A_JUDGE = "{provider: openai, model: gpt-6-luna}"
_WORD = r"^[^\x00-\x20\x7f-\xa0](?:[^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\xa0])?\Z"
_WORD_TOLD = "of at most 200 characters without control characters or spaces at the ends"

_Name = Annotated[
    ExperimentName,
    Meta(
        pattern=rf"^(?:{EXPERIMENT_NAME.pattern})\Z",
        description="1 to 40 of a-z, 0-9 and -, not beginning with -",
    ),
]
_Text = Annotated[str, Meta(pattern=r"\S", description="text that is not empty")]
_Word = Annotated[
    str,
    Meta(pattern=_WORD, max_length=200, description=f"text {_WORD_TOLD}"),
]
_Count = Annotated[int, Meta(ge=1, le=_LARGEST, description="a whole number, 1 or more")]
_Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1")]
_Usd = Annotated[float, Meta(ge=0, le=1_000_000, description="USD for a million tokens, a number from 0 to 1000000")]
_Words = Annotated[
    _Word | Annotated[tuple[_Word, ...], Meta(min_length=1)],
    Meta(description=f"text, or a list of texts, {_WORD_TOLD}"),
]


class OwnCriterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A criterion in the file's own words."""

    name: _Word
    description: _Text


class PairsSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which samples meet, and which of two comes first."""

    design: Annotated[Design, Meta(description="all, random or groups")] = "all"
    count: _Count | None = None
    share: _Share | None = None
    seed: Annotated[int, Meta(ge=0, le=_LARGEST, description="a whole number, 0 or more")] = 0
    order: Annotated[Order, Meta(description="random, alternate, balanced or given")] = "random"

    def __post_init__(self) -> None:
        if self.count is not None and self.share is not None:
            raise ValueError("count and share both say how many; keep one of them")
        if self.design == "random" and self.count is None and self.share is None:
            raise ValueError("design random needs to know how many; add count or share")
        for field in ("count", "share"):
            if self.design != "random" and getattr(self, field) is not None:
                raise ValueError(f"{field} goes only with design random, not {self.design}; remove one of them")


class BatchSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run is cut into segments: by size or into a number of them."""

    max_requests: _Count | None = None
    max_bytes: _Count | None = None
    segments: Annotated[int, Meta(ge=1, le=100_000, description="a whole number from 1 to 100000")] | None = None

    def __post_init__(self) -> None:
        if self.segments is not None and (self.max_requests or self.max_bytes):
            raise ValueError("segments and max_requests or max_bytes cut twice; keep one way")


class PriceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a million tokens cost at this judge in its mode, in USD."""

    input: _Usd
    output: _Usd
    cached: _Usd | None = None


class JudgeSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of `judges`: every model × every reasoning level is a judge."""

    provider: _Word
    model: _Words
    reasoning: _Words = "default"
    endpoint: Annotated[Endpoint, Meta(description="chat or responses")] | None = None
    mode: Annotated[Mode, Meta(description="batch or live")] | None = None
    answer: Annotated[Answer, Meta(description="tag or json")] | None = None
    max_output_tokens: _Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2, description="a number from 0 to 2")] | None = None
    requests_per_second: Annotated[float, Meta(gt=0, description="a number above 0")] | None = None
    price: Annotated[PriceSpec, Meta(description="a mapping, such as {input: 0.05, output: 0.25}")] | None = None

    def __post_init__(self) -> None:
        _refuse_twins("model", self.models)
        _refuse_twins("reasoning", self.reasonings)
        if self.requests_per_second is not None and self.mode == "batch":
            raise ValueError("requests_per_second goes only with mode live; remove one of them")

    @property
    def models(self) -> tuple[str, ...]:
        """The models, also when there is one."""
        return (self.model,) if isinstance(self.model, str) else self.model

    @property
    def reasonings(self) -> tuple[str, ...]:
        """The reasoning levels, also when there is one."""
        return (self.reasoning,) if isinstance(self.reasoning, str) else self.reasoning


class ExperimentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared grid, as a person wrote it and with the defaults filled in."""

    name: _Name
    samples: _Text
    judges: Annotated[
        tuple[Annotated[JudgeSpec, Meta(description=f"a mapping, such as {_A_JUDGE}")], ...],
        Meta(min_length=1, description=f"a list of at least one judge, such as [{_A_JUDGE}]"),
    ]
    task: Annotated[_Word, Meta(description="the name of a task")] = "pairwise"
    criterion: Annotated[_Word | OwnCriterion, Meta(description="a name, or {name: …, description: …}")] = (
        "overall_quality"
    )
    templates: Annotated[
        tuple[_Word, ...], Meta(min_length=1, description="a list of at least one built-in name or path")
    ] = ("default",)
    answer: Annotated[Answer, Meta(description="tag or json")] | None = None
    pairs: Annotated[PairsSpec, Meta(description="a mapping, such as {design: random, count: 400}")] = PairsSpec()
    directions: Annotated[
        tuple[Annotated[Direction, Meta(description="forward or reverse")], ...],
        Meta(min_length=1, description="a list: [forward], [reverse] or [forward, reverse]"),
    ] = ("forward",)
    reverse_share: _Share | None = None
    ties: Annotated[bool, Meta(description="true or false")] = False
    tags: Tags = Tags()
    repeats: Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")] = 1
    batch: BatchSpec = BatchSpec()
    attempts: Annotated[int, Meta(ge=1, le=20, description="a whole number from 1 to 20")] = 3
    checks: Checks = Checks()

    def __post_init__(self) -> None:
        _refuse_twins("templates", [template_name(entry) for entry in self.templates])
        _refuse_twins("directions", self.directions)
        if self.reverse_share is not None and "reverse" not in self.directions:
            raise ValueError("reverse_share needs the direction reverse; add it to directions or remove the share")
        _check_tags(self.tags)
        judges = sum(len(spec.models) * len(spec.reasonings) for spec in self.judges)
        runs = judges * len(self.templates) * len(self.directions) * self.repeats
        if runs > _MOST_RUNS:
            raise ValueError(f"judges and the rest of the grid make {runs} runs; at most {_MOST_RUNS} go into one file")
        _check_judges(self)

    @property
    def options(self) -> dict[str, object]:
        """What the file says under the keys of its task alone, as JSON; what is left at its default is left out."""
        own = [field for field in fields(self) if field.name not in ExperimentFile.__struct_fields__]
        given = {field.name: (getattr(self, field.name), field.default) for field in own}
        return {name: _as_stored(value) for name, (value, default) in given.items() if value != default}


def _as_stored(value: object) -> object:
    """Return the value as it comes back from the store, so that a file and what was frozen of it are equal."""
    return msgspec.json.decode(msgspec.json.encode(value))


class TaskKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Which keys of the experiment file go with a task: of those that only some take, and those of its own."""

    shared: frozenset[str]
    own: type[msgspec.Struct]

    @property
    def all(self) -> frozenset[str]:
        """Every key that not all tasks take and this one does."""
        return self.shared | frozenset(self.own.__struct_fields__)


@cache
def file_type(task: str, own: type[msgspec.Struct]) -> type[ExperimentFile]:
    """Return what a file for this task may say: the common keys, and those of the task's own."""
    keys = [(field.name, field.type, _default(field)) for field in fields(own)]
    required = [(name, kind) for name, kind, default in keys if default is msgspec.NODEFAULT]
    made = msgspec.defstruct(
        f"{task.capitalize()}File",
        [*required, *(key for key in keys if key[2] is not msgspec.NODEFAULT)],
        bases=(ExperimentFile,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[ExperimentFile]", made)  # it is one by its base


def _default(field: FieldInfo) -> object:
    assert field.default_factory is msgspec.NODEFAULT, "an option's default is a plain value"
    return field.default


class JudgeCell(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one reasoning level of an entry of `judges`."""

    index: int
    spec: JudgeSpec
    model: str
    reasoning: str


def judge_cells(file: ExperimentFile) -> Iterator[JudgeCell]:
    """Yield every judge of the grid in file order."""
    for index, spec in enumerate(file.judges):
        for model in spec.models:
            for reasoning in spec.reasonings:
                yield JudgeCell(index=index, spec=spec, model=model, reasoning=reasoning)


def is_template_path(entry: str) -> bool:
    """Say whether an entry of `templates` is a path; otherwise it is the name of a built-in one."""
    return "/" in entry or entry.lower().endswith((".txt", ".md"))


def template_name(entry: str) -> str:
    """Return what the template of this entry is called: a path's stem, or the entry itself."""
    return PurePosixPath(entry).stem if is_template_path(entry) else entry


def _refuse_twins(field: str, values: Sequence[Hashable]) -> None:
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{field} holds {value!r} twice; remove or rename one of them")
        seen.add(value)


def _check_tags(tags: Tags) -> None:
    for field in ("prefix", "suffix"):
        if not getattr(tags, field).strip():
            raise ValueError(f"tags.{field} is empty; write what stands around the answer")
    if tags.prefix == tags.suffix:
        raise ValueError(f"tags.prefix and tags.suffix are both {tags.prefix!r}; make them different")


def _check_judges(file: ExperimentFile) -> None:
    seen: dict[Hashable, int] = {}
    for cell in judge_cells(file):
        spec = msgspec.structs.replace(
            cell.spec,
            model=cell.model,
            reasoning=cell.reasoning,
            answer=cell.spec.answer or file.answer,
            requests_per_second=None,
            price=None,
        )
        if spec in seen:
            raise ValueError(
                f"judges[{cell.index}] repeats judges[{seen[spec]}] ({spec.provider}, {cell.model}, "
                f"{cell.reasoning}); remove one of them, or use repeats"
            )
        seen[spec] = cell.index
