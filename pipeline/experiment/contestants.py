"""What the texts of a run are called when they are judged: who wrote them."""

from pipeline.domain import RunConfig


def contestants(configs: list[RunConfig]) -> dict[str, str]:
    """Return what each run's texts are called: the model, and whatever else tells it from other runs of that model."""
    details = {config.run_id: _details(config) for config in configs}
    labels: dict[str, str] = {}
    for config in configs:
        same = [details[other.run_id] for other in configs if other.judge.model == config.judge.model]
        varies = [len(set(values)) > 1 for values in zip(*same, strict=True)]
        told = [each for each, differs in zip(details[config.run_id], varies, strict=True) if differs]
        labels[config.run_id] = f"{config.judge.model} ({', '.join(told)})" if told else config.judge.model
    return labels


def _details(config: RunConfig) -> tuple[str, ...]:
    judge = config.judge
    settings = f"{judge.mode}, temperature {judge.temperature}, at most {judge.max_output_tokens}"
    return judge.provider, judge.reasoning, config.template.name, f"r{config.repeat}", settings
