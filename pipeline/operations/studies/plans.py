"""What an experiment file asks for: read, expanded and counted. Nothing is written, and nobody is called."""

from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from pipeline import pairing, planning, providers
from pipeline.domain import Criterion, Direction, Experiment, Judge, Mode, OwnPrice, RunConfig, Template
from pipeline.errors import ConfigError
from pipeline.events import Segment
from pipeline.experiment import (
    ExperimentFile,
    Places,
    expand,
    is_template_path,
    judge_cells,
    prices,
    rates,
    read_experiment,
    template_name,
)
from pipeline.operations.studies.chaining import written_elsewhere
from pipeline.operations.workers.material import pairs_digest
from pipeline.operations.workers.requests import limits_of, limits_within, renderer
from pipeline.operations.workers.worker import Worker
from pipeline.pairing import Cohesion, Pairs
from pipeline.samples import Samples
from pipeline.storage.sources import check_there, read_samples, read_text, shown
from pipeline.tasks import Talks, Task, task_keys, task_named
from pipeline.tasks.rendering import Material
from pipeline.tasks.templates import built_in, check_template
from pipeline.tasks.traits import NO_CRITERION, criterion_named
from pipeline.tasks.turns import spoken_turns
from pipeline.wording import nearest

_BYTES_A_TOKEN = 4


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that could be sent: its requests, how they are cut, and about how much they are, all and the largest."""

    config: RunConfig
    segments: tuple[Segment, ...]
    too_large: int
    largest: int = 0

    @property
    def bytes(self) -> int:
        """How many bytes would be sent."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def later(self) -> int:
        """How many requests go on from answers and are cut into batches only when those are there."""
        return self.config.requests - sum(segment.requests for segment in self.segments)

    @property
    def input_tokens(self) -> int:
        """About how many tokens the prompts have, at four bytes a token."""
        return self.bytes // _BYTES_A_TOKEN


class Misspelt(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's model, and the one of its provider that was probably meant."""

    provider: str
    model: str
    near: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An experiment that could be run, with everything a store needs to hold of it."""

    experiment: Experiment
    samples: Samples
    pairs: Pairs
    runs: tuple[RunPlan, ...]
    left_out: dict[str, int] = {}

    def misspelt(self) -> list[Misspelt]:
        """Return the models that look like slips of the pen: not known here, and spelled like one that is."""
        judges = dict.fromkeys((run.config.judge.provider, run.config.judge.model) for run in self.runs)
        found = [(provider, model, providers.nearest_model(provider, model)) for provider, model in judges]
        return [Misspelt(provider=provider, model=model, near=near) for provider, model, near in found if near]

    def cohesion(self) -> Cohesion | None:
        """Return how far the pairs link the contestants; None if nothing is compared."""
        if not len(self.pairs):
            return None
        groups = self.samples.groups()
        return pairing.cohesion(
            self.pairs,
            contestants=self.samples.contestants(),
            groups=groups if any(group is not None for group in groups) else None,
        )


def plan(location: str, *, worker: Worker | None = None) -> Plan:
    """Return what the experiment file at this path or URL asks for; raises ConfigError if it cannot be done.

    Args:
        location: where the file is.
        worker: finds what an earlier experiment wrote, for a file whose samples are that (`generations://…`).

    """
    if "://" not in location and not Path(location).is_file():
        what = "is a folder" if Path(location).is_dir() else "does not exist"
        raise ConfigError(f"{location} {what}; give the path of an experiment file")
    base = _folder(location)
    source = shown(location)
    text = read_text(location, base=str(Path.cwd())).encode()
    file = read_experiment(text, source=source, tasks=task_keys())
    places = Places(text, source=source)
    with places.at("samples"):
        written = written_elsewhere(file.samples, worker)
        if written is None:
            check_there(file.samples, base=base)
    samples = read_samples(file.samples, base=base) if written is None else written.samples
    is_pairwise = task_named(file.task).SUBJECT == "pair"
    pairs = _pairs(file, samples, places) if is_pairwise else pairing.NO_PAIRS
    if not len(pairs if is_pairwise else samples):
        raise ConfigError(f"{source}: there is nothing to ask: {_too_few(file, samples)}")
    configs = _configs(file, samples, pairs, base=base, places=places)
    material = Material.of(samples, pairs)
    material.check()
    experiment = Experiment(
        name=file.name,
        samples=samples.digest(),
        pairs=pairs_digest(samples.digest(), pairs),
        attempts=file.attempts,
        max_requests=file.batch.max_requests,
        max_bytes=file.batch.max_bytes,
        segments=file.batch.segments,
        runs=configs,
        rates=rates(file),
        checks=file.checks,
        prices=_own_prices(file, places) or msgspec.UNSET,
    )
    runs = tuple(run_plan(config, experiment, material) for config in configs)
    left_out = {} if written is None else written.left_out
    return Plan(experiment=experiment, samples=samples, pairs=pairs, runs=runs, left_out=left_out)


def _own_prices(file: ExperimentFile, places: Places) -> tuple[OwnPrice, ...]:
    with places.at("judges"):
        return prices(file, _default_mode)


def _default_mode(provider: str) -> Mode:
    return providers.module(provider).MODES[0]


def _folder(location: str) -> str:
    """Return where the paths inside an experiment file start from."""
    return location.rpartition("/")[0] if "://" in location else str(Path(location).absolute().parent)


def _pairs(file: ExperimentFile, samples: Samples, places: Places) -> Pairs:
    asked = file.pairs
    groups = samples.groups()
    with places.at("samples"):
        _check_groups(samples, groups)
    with places.at("pairs", "count" if asked.count is not None else "design"):
        return pairing.make_pairs(
            len(samples),
            groups=groups if any(group is not None for group in groups) else None,
            design=asked.design,
            count=asked.count,
            share=asked.share,
            seed=asked.seed,
            order=asked.order,
        )


def _check_groups(samples: Samples, groups: list[str | None]) -> None:
    """Raise ConfigError, with the id to look for, if only some samples have a group."""
    without = groups.count(None)
    if 0 < without < len(groups):
        first = samples[groups.index(None)].sample_id
        raise ConfigError(
            f"samples: {without:,} of {len(groups):,} have no group while others have one (the first is {first!r}); "
            "give every sample a group, or none"
        )


def _too_few(file: ExperimentFile, samples: Samples) -> str:
    """Say why no request comes of these samples; frozen as it is, such an experiment could never be mended."""
    if not len(samples):
        return f"{shown(file.samples)} holds no sample"
    if len(samples) == 1:
        return f"{shown(file.samples)} holds one sample, and a pair needs two"
    return "no group has two samples"


def _configs(
    file: ExperimentFile, samples: Samples, pairs: Pairs, *, base: str, places: Places
) -> tuple[RunConfig, ...]:
    share, task = file.reverse_share or 1.0, task_named(file.task)
    _check_providers(file, task, places)
    templates = {}
    for index, entry in enumerate(file.templates):
        with places.at("templates", index):
            templates[template_name(entry)] = _template(entry, base, task)
    with places.at("criterion"):
        criterion = _criterion(file) if "criterion" in task.KEYS else NO_CRITERION
    with places.at("judges"):
        configs = expand(
            file,
            templates=templates,
            criterion=criterion,
            modes=_default_mode,
            task_version=task.VERSION,
            samples=samples.digest(),
            pairs=pairs_digest(samples.digest(), pairs),
            requests=_requests(file, samples, pairs, task),
            answers=lambda name: task.ANSWER if task.ANSWER in providers.particulars(name).ANSWERS else "tag",
        )
    for config in configs:
        with places.at("judges", _index_of(file, config.judge)):
            _check_judge(config)
    seed = file.pairs.seed
    return tuple(
        replace(config, share=share, seed=seed) if config.direction == "reverse" and share != 1.0 else config
        for config in configs
    )


def _requests(file: ExperimentFile, samples: Samples, pairs: Pairs, task: Task) -> dict[Direction, int]:
    """Return how many requests a run has: one per pair, sample, or turn of a sample's conversation."""
    if isinstance(task, Talks):
        spoken = spoken_turns(task.turns(msgspec.convert(file.options, task.Options)), samples)
        return {"forward": len(samples) + sum(map(len, spoken))}
    if task.SUBJECT != "pair":
        return {"forward": len(samples)}
    share = file.reverse_share or 1.0
    reversed_ = len(pairing.reverse_subset(len(pairs), share=share, seed=file.pairs.seed))
    return {"forward": len(pairs), "reverse": reversed_}


def _check_providers(file: ExperimentFile, task: Task, places: Places) -> None:
    for index, judge in enumerate(file.judges):
        with places.at("judges", index, "provider"):
            providers.module(judge.provider)
        with places.at("judges", index, "answer"):
            if judge.answer is not None and "answer" not in task.KEYS:
                raise ConfigError(f"judges[{index}].answer does not go with task {file.task}; remove it")


def _index_of(file: ExperimentFile, judge: Judge) -> int:
    """Return which entry of `judges` the judge is from; of two with the same names the first."""
    named = (judge.provider, judge.model, judge.reasoning)
    return next(cell.index for cell in judge_cells(file) if (cell.spec.provider, cell.model, cell.reasoning) == named)


def _check_judge(config: RunConfig) -> None:
    judge = config.judge
    module = providers.module(judge.provider)
    if judge.mode not in module.MODES:
        raise ConfigError(f"{judge.provider} has no mode {judge.mode}; it has {' and '.join(module.MODES)}")
    module.check_judge(judge)


def _template(entry: str, base: str, task: Task) -> Template:
    if is_template_path(entry):
        template = Template(name=template_name(entry), text=read_text(entry, base=base))
        check_template(template, task.SLOTS)
        return template
    known = built_in(entry, task.TEMPLATES)
    if known is None:
        near = nearest(entry, task.TEMPLATES)
        meant = f"did you mean {near}? " if near else ""
        raise ConfigError(
            f"templates: {entry!r} is not a built-in template; {meant}give a path that ends in .txt, or choose one of "
            f"{', '.join(task.TEMPLATES)}"
        )
    return known


def _criterion(file: ExperimentFile) -> Criterion:
    if isinstance(file.criterion, str):
        return criterion_named(file.criterion)
    return Criterion(name=file.criterion.name, description=file.criterion.description)


def run_plan(config: RunConfig, experiment: Experiment, material: Material) -> RunPlan:
    """Return the segments of one run, and how much its first requests are."""
    requests = renderer(config, material)
    sizes = requests.sizes(np.arange(requests.asked_at_once))
    too_large = sizes > limits_of(config).max_bytes
    limits = limits_within(config, experiment)
    segments = planning.cut(np.where(too_large, 0, sizes), limits, segments=experiment.segments)
    if planning.too_many(segments):
        raise ConfigError(f"{config.run_id} would have {len(segments)} segments; raise batch.max_requests or max_bytes")
    largest = int(np.where(too_large, 0, sizes).max(initial=0))
    return RunPlan(config=config, segments=segments, too_large=int(too_large.sum()), largest=largest)
