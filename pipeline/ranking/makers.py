"""Who made a model, as far as its name tells; and whether judges like their own maker's contestants."""

import re

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.findings import SelfPreference
from pipeline.ranking.uncertainty import critical

_MAKERS = (
    ("OpenAI", r"gpt|chatgpt|o[1345](-|$)|openai|davinci"),
    ("Anthropic", r"claude|anthropic"),
    ("Google", r"gemini|gemma|palm|bison"),
    ("Meta", r"llama|meta-"),
    ("Alibaba", r"qwen|qwq|alibaba"),
    ("Mistral", r"mistral|mixtral|ministral|magistral"),
    ("DeepSeek", r"deepseek"),
    ("xAI", r"grok|xai"),
    ("Cohere", r"command|cohere|aya-"),
    ("Microsoft", r"phi-|phi\d|wizardlm|microsoft"),
    ("Amazon", r"nova-|titan|amazon"),
    ("Moonshot", r"kimi|moonshot"),
    ("Zhipu", r"glm|zhipu"),
)
_PATTERNS = tuple((maker, re.compile(rf"(^|[/_ -])({pattern})")) for maker, pattern in _MAKERS)


def maker_of(name: str) -> str | None:
    """Return the maker that a model's name gives away; what a distilled model is called first decides."""
    lowered = name.lower().rsplit("/", 1)[-1]
    hits = [(found.start(), maker) for maker, pattern in _PATTERNS if (found := pattern.search(lowered))]
    return min(hits)[1] if hits else None


def self_preferences(data: Comparisons) -> tuple[SelfPreference, ...]:
    """Return one finding for each judge whose maker's contestants met others."""
    known = [maker_of(name) for name in data.contestants]
    judges = [maker_of(name) for name in data.judge.labels]
    found = []
    for code, maker in enumerate(judges):
        if maker is not None and maker in known:
            own = np.array([name == maker for name in known], dtype=bool)
            others = np.array([name != maker for name in judges], dtype=bool)
            found.append(_preference(data, code, maker, own, others))
    return tuple(finding for finding in found if finding is not None)


def _preference(
    data: Comparisons, judge: int, maker: str, own: npt.NDArray[np.bool_],
    others: npt.NDArray[np.bool_],
) -> SelfPreference | None:  # fmt: skip
    """Return how a judge treats its maker's contestants, pair by pair beside the other makers' judges."""
    mixed = own[data.first] != own[data.second]
    points = np.where(own[data.first], data.halves / 2, 1 - data.halves / 2)
    mine = mixed & (data.judge.codes == judge)
    theirs = mixed & others[data.judge.codes]
    if not mine.any():
        return None
    plain = SelfPreference(
        judge=data.judge.labels[judge],
        maker=maker,
        comparisons=int(mine.sum()),
        own=float(points[mine].mean()),
        others=None,
        difference=None,
        low=None,
        high=None,
    )
    pairs = data.pair.count
    one, other = (_by_pair(data.pair.codes[side], points[side], pairs) for side in (mine, theirs))
    gap = one - other
    gap = gap[np.isfinite(gap)]
    if len(gap) < 2:
        return plain
    shared = np.isfinite(one) & np.isfinite(other)
    reach = float(critical(0.95, len(gap)) * gap.std(ddof=1) / np.sqrt(len(gap)))
    middle = float(gap.mean())
    return msgspec.structs.replace(
        plain,
        own=float(one[shared].mean()),
        others=float(other[shared].mean()),
        difference=middle,
        low=middle - reach,
        high=middle + reach,
    )


def _by_pair(codes: npt.NDArray[np.int32], points: Floats, pairs: int) -> Floats:
    """Return the mean of each pair's points, NaN where there are none."""
    count = np.bincount(codes, minlength=pairs)
    sums = np.bincount(codes, points, pairs)
    return np.asarray(np.divide(sums, count, out=np.full(pairs, np.nan), where=count > 0))
