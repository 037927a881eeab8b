"""Azure OpenAI: OpenAI's files and batches at a resource of one's own.

Odd about it: `model` is the name of a Global-Batch or DataZone-Batch deployment; a file must be `processed` before a
batch is created on it; statuses may be capitalized, times ISO texts, counts null, and the listing may come as `value`;
jobs older than 24 h are not expired; an error file may have no bytes. A filtered line is a 400 with `content_filter`.
Our key travels in `metadata`: the proof for an uncertain create is exact.
Limits: 100,000 requests and 200 MB a batch. `AZURE_OPENAI_ENDPOINT` is `https://NAME.openai.azure.com`.
"""

import functools
from datetime import timedelta

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import Judge, Limits, Mode
from pipeline.errors import ConfigError, RejectedError, UnavailableError
from pipeline.providers import Submission
from pipeline.providers._asking import check_endpoint, endpoint_frame
from pipeline.providers._chat import decode_block, decode_line
from pipeline.providers._compatible import (
    Batch,
    Dialect,
    FilesAndBatches,
    newest,
    order_at_endpoint,
    remote_batch,
    upload_form,
)
from pipeline.providers._http import Http, fingerprint, quoted
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch",)
KEYS: tuple[str, ...] = ("AZURE_OPENAI_API_KEY",)
LIMITS = Limits(max_requests=100_000, max_bytes=200_000_000)
KEPT = timedelta(days=14)  # the least that a resource can be set to

frame = endpoint_frame
decode, decode_lines = decode_line, decode_block

_ENDPOINT = "AZURE_OPENAI_ENDPOINT"
_PATH = "/openai/v1"
_LOOKS = 60
_SECONDS_BETWEEN_LOOKS = 5.0


class _File(msgspec.Struct):
    status: str | None = None


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Azure is known to refuse this judge."""
    check_endpoint(judge)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[Batch]:
    """Return the provider for the key and resource of the environment."""
    key = settings.key(*KEYS)
    if settings.is_set(_ENDPOINT) is None:
        raise ConfigError(f"{_ENDPOINT} is not set; give your resource's address, like https://NAME.openai.azure.com")
    base = settings.address(_ENDPOINT, "").removesuffix(_PATH) + _PATH
    http = Http(base, {"api-key": key.reveal()}, clock, transport=transport)
    dialect: Dialect[Batch] = Dialect(
        kind=Batch,
        remote=remote_batch,
        order=order_at_endpoint,
        listed=newest,
        upload=functools.partial(_upload_processed, clock),
    )
    return FilesAndBatches(http, dialect, account=fingerprint(key))


def _upload_processed(clock: Clock, http: Http, submission: Submission) -> str:
    """Upload the lines and wait until Azure has read them; return the file's id."""
    file_id = upload_form(http, submission)
    for _ in range(_LOOKS):
        status = (http.get(f"/files/{quoted(file_id)}", _File).status or "processed").lower()
        if status == "processed":
            return file_id
        if status in {"error", "failed", "deleted"}:
            raise RejectedError(f"file {file_id} ended as {status} at Azure before a batch could be created on it")
        clock.sleep(_SECONDS_BETWEEN_LOOKS)
    waited = _LOOKS * _SECONDS_BETWEEN_LOOKS
    raise UnavailableError(f"file {file_id} was still not processed by Azure after {waited:g} s")
