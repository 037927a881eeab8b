"""From a declared grid to its runs: every template × judge × direction × repeat, in file order."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import msgspec

from pipeline.domain import Answer, Criterion, Direction, Judge, Mode, OwnPrice, Price, Rate, RunConfig, Template
from pipeline.errors import ConfigError
from pipeline.experiment.spec import ExperimentFile, JudgeCell, PriceSpec, judge_cells, template_name
from pipeline.ids import Digest, digest_of, run_ids


class _Cell(msgspec.Struct, frozen=True, kw_only=True):
    template: Template
    judge: Judge
    twin: bool
    direction: Direction
    repeat: int

    def names(self) -> list[str]:
        """Return what the run's id is made of; a judge that shares its names with an earlier one adds a digest."""
        judge = self.judge
        parts = [self.template.name, judge.provider, judge.model, judge.reasoning, self.direction]
        if self.repeat > 1:
            parts.append(f"r{self.repeat}")
        if self.twin:
            parts.append(digest_of(judge)[:8])
        return parts


def expand(
    file: ExperimentFile,
    *,
    templates: Mapping[str, Template],
    criterion: Criterion,
    modes: Callable[[str], Mode],
    task_version: int,
    samples: Digest,
    pairs: Digest,
    requests: Mapping[Direction, int],
    answers: Callable[[str], Answer] = lambda _: "tag",
) -> tuple[RunConfig, ...]:
    """Return the runs of the file.

    Args:
        templates: the loaded templates by `template_name` of the file's entries.
        modes: gives the default mode of a provider.
        requests: how many requests a run of each direction has.
        answers: gives how the judges of a provider answer where the file does not say.
    """
    cells = list(_cells(file, templates, _judges(file, modes, answers)))
    names = run_ids(file.name, [cell.names() for cell in cells])
    return tuple(
        RunConfig(
            run_id=run_id,
            task=file.task,
            task_version=task_version,
            template=cell.template,
            criterion=criterion,
            tags=file.tags,
            ties=file.ties,
            judge=cell.judge,
            direction=cell.direction,
            repeat=cell.repeat,
            samples=samples,
            pairs=pairs,
            requests=requests[cell.direction],
            options=file.options or msgspec.UNSET,
        )
        for run_id, cell in zip(names, cells, strict=True)
    )


def rates(file: ExperimentFile) -> tuple[Rate, ...]:
    """Return the live rates the file asks for, one for each provider and model; the lowest where several are given."""
    found: dict[tuple[str, str], float] = {}
    for cell in judge_cells(file):
        wanted = cell.spec.requests_per_second
        if wanted is not None:
            key = (cell.spec.provider, cell.model)
            found[key] = min(wanted, found.get(key, wanted))
    return tuple(
        Rate(provider=provider, model=model, requests_per_second=rate) for (provider, model), rate in found.items()
    )


def prices(file: ExperimentFile, modes: Callable[[str], Mode]) -> tuple[OwnPrice, ...]:
    """Return the prices that the file gives, one for each provider, model and mode; raises ConfigError if two differ.

    Args:
        modes: gives the default mode of a provider.
    """
    found: dict[tuple[str, str, Mode], Price] = {}
    for cell in judge_cells(file):
        spec = cell.spec
        if spec.price is not None:
            key, price = (spec.provider, cell.model, spec.mode or modes(spec.provider)), _price(spec.price)
            if found.setdefault(key, price) != price:
                raise ConfigError(
                    f"judges[{cell.index}].price is another than an earlier judge's for {', '.join(key)}; "
                    "a model has one price in a mode, so make them equal"
                )
    return tuple(
        OwnPrice(provider=provider, model=model, mode=mode, price=price)
        for (provider, model, mode), price in found.items()
    )


def _price(given: PriceSpec) -> Price:
    cached = None if given.cached is None else Decimal(str(given.cached))
    return Price(input=Decimal(str(given.input)), output=Decimal(str(given.output)), cached=cached)


def _cells(file: ExperimentFile, templates: Mapping[str, Template], judges: Mapping[Judge, bool]) -> Iterator[_Cell]:
    for entry in file.templates:
        for judge, twin in judges.items():
            for direction in file.directions:
                for repeat in range(1, file.repeats + 1):
                    yield _Cell(
                        template=templates[template_name(entry)],
                        judge=judge,
                        twin=twin,
                        direction=direction,
                        repeat=repeat,
                    )


def _judges(file: ExperimentFile, modes: Callable[[str], Mode], answers: Callable[[str], Answer]) -> dict[Judge, bool]:
    """Return the judges in file order, and whether an earlier one has the same provider, model and reasoning."""
    judges: dict[Judge, bool] = {}
    named: set[tuple[str, str, str]] = set()
    for cell in judge_cells(file):
        spec = cell.spec
        mode, answer = spec.mode or modes(spec.provider), spec.answer or file.answer or answers(spec.provider)
        judge = _judge(file, cell, mode, answer)
        if judge in judges:
            raise ConfigError(
                f"experiment {file.name}: judges[{cell.index}] repeats an earlier judge ({judge.provider}, "
                f"{judge.model}, {judge.reasoning}); remove one of them, or use repeats"
            )
        name = (judge.provider, judge.model, judge.reasoning)
        judges[judge] = name in named
        named.add(name)
    return judges


def _judge(file: ExperimentFile, cell: JudgeCell, mode: Mode, answer: Answer) -> Judge:
    spec = cell.spec
    if mode == "batch" and spec.requests_per_second is not None:
        raise ConfigError(
            f"experiment {file.name}: judges[{cell.index}].requests_per_second goes only with live calls and "
            f"{spec.provider} is used in batches; add mode: live or remove it"
        )
    return Judge(
        provider=spec.provider,
        model=cell.model,
        reasoning=cell.reasoning,
        mode=mode,
        answer=answer,
        endpoint=spec.endpoint,
        max_output_tokens=spec.max_output_tokens,
        temperature=spec.temperature,
    )
