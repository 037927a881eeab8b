"""How a ranking was made, as its page tells it: what the scores mean, and what was asked for and used."""

from pipeline.ranking.elo import orders_of
from pipeline.ranking.report.markup import whole
from pipeline.ranking.values import Method, Ranking, RankingOptions, Unrankable

SCORES: dict[Method, str] = {
    "bradley-terry": "Strength on a scale on which only differences count (Bradley–Terry log-odds; the mean is zero).",
    "elo": "Elo points: only differences count, and 400 more are odds of ten to one. All begin with 1000.",
    "win-rate": "The share of comparisons won, a tie counting half, whoever the others were.",
}
_TRIED = (
    "Tried on simulated studies it holds the truth in 94 to 96 of 100; with fewer than about fifteen comparisons per "
    "contestant it is wider than it need be."
)


def words(method: Method) -> dict[str, str]:
    """Return what a score and its interval are, for readers who do not know."""
    meant = "The range in which the true value lies with the confidence stated, if judges go on judging as they did."
    return {"Score": SCORES[method], "Interval": f"{meant} {_TRIED}" if method == "bradley-terry" else meant}


def made(result: Ranking | Unrankable, options: RankingOptions, *, length: bool) -> dict[str, str]:
    """Return how the ranking was made: what was asked for and, where there is a ranking, what it came to."""
    clusters = f"{whole(result.clusters)}, by {result.cluster_kind}" if isinstance(result, Ranking) else options.cluster
    return {
        "ranked": f"by {options.by}",
        "method": options.method,
        "ties": "half a win for each" if options.ties == "half" else options.ties,
        **(_model(result, options, length=length) if options.method == "bradley-terry" else {}),
        "interval": _interval(result, options),
        "clusters": clusters,
        "seed": str(options.seed),
    }


def _model(result: Ranking | Unrankable, options: RankingOptions, *, length: bool) -> dict[str, str]:
    """Return what the Bradley-Terry model held besides the scores."""
    weight = result.regularisation if isinstance(result, Ranking) else options.regularisation
    return {
        "position bias in the model": "yes" if options.position else "no",
        "length in the model": "yes" if length else "no",
        "regularisation": "none unless it is needed" if weight is None else f"{weight:g}",
    }


def _interval(result: Ranking | Unrankable, options: RankingOptions) -> str:
    """Return how the intervals were made, how sure they are, and over how many rounds."""
    sure = f"{options.confidence:.0%}".replace("%", " %")
    match options.method:
        case "elo":
            orders = orders_of(result.comparisons, options.rounds) if isinstance(result, Ranking) else options.rounds
            return f"resampled clusters, {sure}, {whole(orders)} random orders"
        case "win-rate":
            return f"Wilson, {sure}"
        case "bradley-terry":
            rounds = f", {whole(options.rounds)} rounds" if options.intervals == "bootstrap" else ""
            return f"{options.intervals}, {sure}{rounds}"
