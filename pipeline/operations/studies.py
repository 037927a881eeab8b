"""From an experiment file to a frozen experiment: read, expand, count, and put into the store once.

Planning writes nothing and calls nobody. Freezing writes the samples, the pairs and last the experiment itself;
growing an experiment adds a version that holds the old runs unchanged.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from pipeline import pairing, planning, providers
from pipeline.domain import Criterion, Direction, Experiment, Judge, RunConfig, Template
from pipeline.errors import ConfigError
from pipeline.events import Asked, Resubmitted, RunPlanned, Segment
from pipeline.experiment import (
    ExperimentFile,
    Places,
    changes,
    expand,
    is_template_path,
    judge_cells,
    rates,
    read_experiment,
    template_name,
)
from pipeline.ids import Digest, RunId, digest
from pipeline.operations.chaining import written_elsewhere
from pipeline.operations.failures import apart
from pipeline.operations.material import load_samples, pairs_digest, store_pairs, store_samples
from pipeline.operations.requests import limits_of, limits_within, renderer
from pipeline.operations.run import Run
from pipeline.operations.submitting import open_run
from pipeline.operations.worker import Worker
from pipeline.pairing import Cohesion, Pairs
from pipeline.samples import Samples, differences
from pipeline.storage import keys
from pipeline.storage.objects import put_once
from pipeline.storage.sources import check_there, read_samples, read_text, shown
from pipeline.tasks import Talks, Task, task_keys, task_named
from pipeline.tasks.rendering import Material
from pipeline.tasks.templates import built_in, check_template
from pipeline.tasks.traits import NO_CRITERION, criterion_named
from pipeline.tasks.turns import spoken_turns

_BYTES_A_TOKEN = 4


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that could be sent: its requests, how they are cut, and about how much they are."""

    config: RunConfig
    segments: tuple[Segment, ...]
    too_large: int

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
    )
    runs = tuple(_run_plan(config, experiment, material) for config in configs)
    left_out = {} if written is None else written.left_out
    return Plan(experiment=experiment, samples=samples, pairs=pairs, runs=runs, left_out=left_out)


def _folder(location: str) -> str:
    """Return where the paths inside an experiment file start from."""
    return location.rpartition("/")[0] if "://" in location else str(Path(location).absolute().parent)


def _pairs(file: ExperimentFile, samples: Samples, places: Places) -> Pairs:
    asked = file.pairs
    groups = samples.groups()
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
            modes=lambda name: providers.module(name).MODES[0],
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
        raise ConfigError(
            f"templates: {entry!r} is not a built-in template; give a path that ends in .txt, or choose one of "
            f"{', '.join(task.TEMPLATES)}"
        )
    return known


def _criterion(file: ExperimentFile) -> Criterion:
    if isinstance(file.criterion, str):
        return criterion_named(file.criterion)
    return Criterion(name=file.criterion.name, description=file.criterion.description)


def _run_plan(config: RunConfig, experiment: Experiment, material: Material) -> RunPlan:
    requests = renderer(config, material)
    sizes = requests.sizes(np.arange(requests.asked_at_once))
    too_large = sizes > limits_of(config).max_bytes
    limits = limits_within(config, experiment)
    segments = planning.cut(np.where(too_large, 0, sizes), limits, segments=experiment.segments)
    if planning.too_many(segments):
        raise ConfigError(f"{config.run_id} would have {len(segments)} slices; raise batch.max_requests or max_bytes")
    return RunPlan(config=config, segments=segments, too_large=int(too_large.sum()))


def check_growth(worker: Worker, planned: Plan) -> None:
    """Refuse a version that would alter the requests of a run that exists; more runs are welcome."""
    experiment = planned.experiment
    _refuse_anothers(worker, experiment)
    if experiment.name not in worker.experiment_names():
        return
    known = {run.run_id: run.config for run in worker.runs(experiment.name)}
    tasks = {config.task for config in (*known.values(), *experiment.runs)}
    if len(tasks) > 1:
        raise ConfigError(
            f"experiment {experiment.name!r} exists in {worker.store.url} with another task "
            f"({' and '.join(sorted(tasks))}); take a new name"
        )
    for config in experiment.runs:
        old = known.get(config.run_id)
        if old is not None:
            _refuse_change(worker, planned, old, config)


def _refuse_change(worker: Worker, planned: Plan, old: RunConfig, config: RunConfig) -> None:
    if old.digest() == config.digest():
        return
    name, what = planned.experiment.name, changes(old, config)
    of_samples = _changed_samples(worker, planned, old)
    if of_samples:
        what = [f"samples: {', '.join(of_samples)}", *(each for each in what if each != "samples")]
    more = ""
    if "pairs" in what and not any(each.endswith(" changed") for each in of_samples):
        more = (
            f"; further pairs go under another name with another pairs.seed, and `pairlog rank {name} OTHER` ranks both"
        )
    raise ConfigError(
        f"experiment {name!r} exists in {worker.store.url} and {config.run_id} would change "
        f"({'; '.join(what)}); take a new name{more}"
    )


def _changed_samples(worker: Worker, planned: Plan, old: RunConfig) -> list[str]:
    """Return what differs from the samples that the run was made of, in words."""
    if old.samples == planned.experiment.samples:
        return []
    before = load_samples(worker.store, replace(planned.experiment, samples=old.samples))
    return differences(before, planned.samples) or ["their order changed"]


def _refuse_anothers(worker: Worker, experiment: Experiment) -> None:
    """Refuse runs whose ids are taken by another experiment: `a--b` and `a` with a template `b--c` can share one."""
    wanted = {config.run_id for config in experiment.runs}
    for name in worker.experiment_names():
        if name != experiment.name and any(run_id.startswith(f"{name}--") for run_id in wanted):
            for run in worker.runs(name):
                if run.run_id in wanted:
                    raise ConfigError(f"{run.run_id} is already a run of experiment {name!r}; take a new name")


def freeze(worker: Worker, planned: Plan) -> Digest:
    """Put the experiment into the store, unless it is there, and return its name there.

    Another file may be frozen under the same name meanwhile: each sees the other when both are there, and the one that
    the runs do not follow is refused.
    """
    experiment = planned.experiment
    check_growth(worker, planned)
    body = msgspec.json.encode(experiment, order="sorted")
    named = digest(body)
    store_samples(worker.store, experiment.name, planned.samples)
    store_pairs(worker.store, experiment.name, planned.samples, planned.pairs)
    key = keys.experiment(experiment.name, named)
    if put_once(worker.store, key, lambda: body):
        check_growth(worker, planned)
    return named


def open_runs(worker: Worker, planned: Plan, *, experiment_digest: Digest, asked: Asked = "experiment") -> list[Run]:
    """Fix the slices of every run, and ask for all of them unless they are to be asked for one by one.

    Where the experiment is asked for as a whole, the first commit alone makes sure that all of it gets opened. A run
    that something is wrong with keeps its `failure`, and the others are opened.
    """
    by_id = {run.run_id: run for run in worker.runs(planned.experiment.name)}
    for each in planned.runs:
        if each.config.run_id in by_id:
            _refuse_change(worker, planned, by_id[each.config.run_id].config, each.config)
    opened: list[Run] = []
    for each in planned.runs:
        run = by_id[each.config.run_id]
        run.failure = None
        with apart(run):
            open_run(run, run_planned(planned.experiment, each, experiment_digest, asked=asked))
            if not run.newest.is_led_like(planned.experiment):
                run.record(Resubmitted(experiment_digest=experiment_digest))
        if run.state.plan is not None and run.state.plan.run_digest != each.config.digest():
            check_growth(worker, planned)
        opened.append(run)
    return opened


def kept_settings(planned: Plan, runs: Iterable[Run]) -> dict[str, list[RunId]]:
    """Return the keys of the file that say something else than these runs were opened with, and which keep theirs."""
    wanted = {each.config.run_id: each for each in planned.runs}
    kept: dict[str, list[RunId]] = {}
    for run in runs:
        fixed = run.state.plan
        if fixed is not None and run.run_id in wanted:
            if fixed.attempts != planned.experiment.attempts:
                kept.setdefault("attempts", []).append(run.run_id)
            if fixed.segments != wanted[run.run_id].segments:
                kept.setdefault("batch", []).append(run.run_id)
    return kept


def run_planned(
    experiment: Experiment, run: RunPlan, experiment_digest: Digest, *, asked: Asked = "experiment"
) -> RunPlanned:
    """Return the event that fixes a run."""
    return RunPlanned(
        experiment=experiment.name,
        experiment_digest=experiment_digest,
        run_digest=run.config.digest(),
        requests=run.config.requests,
        attempts=experiment.attempts,
        segments=run.segments,
        asked=asked,
    )


def complete_opening(worker: Worker, runs: list[Run]) -> None:
    """Open the runs that an interrupted submit left out although the whole experiment was asked for."""
    asked = {plan.experiment_digest for run in runs if (plan := run.refresh().plan) and plan.asked == "experiment"}
    unopened = [run for run in runs if run.state.plan is None]
    for name in sorted({run.experiment.name for run in unopened}):
        for version, experiment in worker.experiments(name):
            wanted = {config.run_id for config in experiment.runs} if version in asked else set()
            for run in unopened:
                if run.run_id in wanted:
                    each = _run_plan(run.config, experiment, worker.material(experiment))
                    open_run(run, run_planned(experiment, each, version))


def reopen(worker: Worker, runs: list[Run]) -> None:
    """Read every log, make sure of the keys, and open what an interrupted submit left out.

    A run that something is wrong with keeps its `failure`, and the others can be worked on.
    """
    for run in runs:
        run.failure = None
        with apart(run):
            run.refresh()
    legible = [run for run in runs if run.failure is None]
    check_keys(worker, (run.config for run in legible if planning.is_open(run.state) or run.state.plan is None))
    for name in dict.fromkeys(run.experiment.name for run in legible):
        together = [run for run in legible if run.experiment.name == name]
        with apart(*(run for run in together if run.state.plan is None)):
            complete_opening(worker, together)


def check_keys(worker: Worker, configs: Iterable[RunConfig]) -> None:
    """Raise ConfigError if a provider of these runs has no key: before anything is written or sent."""
    problems: dict[str, None] = {}
    for config in configs:
        try:
            if config.judge.mode == "live":
                providers.live_module(config.judge.provider).live_call(worker.settings, config.judge)
            else:
                worker.provider(config.judge.provider)
        except ConfigError as error:
            problems[str(error)] = None
    if problems:
        raise ConfigError("; ".join(problems))
