"""Vertex AI: an object in our own bucket, then a batch prediction job on it, which writes to our bucket again.

Odd about it: lines have no id, so that ours travels in `request.labels` and is read from the echoed request; results
are shards in any order; an error is a text in `status`. Each attempt has an input object and an output prefix of its
own, named by our key, under `PAIRLOG_VERTEX_BUCKET` (gs://bucket/prefix; unless set, `pairlog-vertex` in the bucket of
`PAIRLOG_STORE`). Our key is `displayName` and a label, and listings can be filtered by it: the proof is exact.
Tokens come from the application default credentials; to a loopback address none is sent. Claude is not offered here.
Limits: 200,000 requests and 1 GB a job; up to 72 h in the queue, then expired; the rest is cancelled after 24 h.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, REQUEST_ID, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import ConfigError, RejectedError
from pipeline.events import End
from pipeline.providers import RemoteBatch, Sought, Submission
from pipeline.providers._asking import check_plain
from pipeline.providers._bodies import Body
from pipeline.providers._failures import keeping_answers
from pipeline.providers._gcs import Bucket, Place, signer
from pipeline.providers._gemini import (
    Content,
    RpcError,
    answered,
    batch_fault,
    batch_faults,
    check_thinking,
    content_body,
    end_of,
    failed,
    moment,
    moment_seconds,
    plain_state,
    whole,
)
from pipeline.providers._google import Page, google_pages, quoted_name
from pipeline.providers._http import Http, checked_id, decoded, fingerprint
from pipeline.providers._lenient import LineDecoder
from pipeline.providers._listings import Entry, carrying, entries, raw, remotes
from pipeline.settings import Secret, Settings, checked_address

MODES: tuple[Mode, ...] = ("batch",)
KEYS: tuple[str, ...] = ("GOOGLE_CLOUD_PROJECT",)
LIMITS = Limits(max_requests=200_000, max_bytes=1_000_000_000)
ID_PATH = ("request", "labels", "request_id")

_BUCKET = "PAIRLOG_VERTEX_BUCKET"
_STORAGE = "https://storage.googleapis.com"
_PART = re.compile(r"[a-z0-9][a-z0-9:.-]{0,62}")
_SHARD = re.compile(r"predictions?[^/]*\.jsonl")
_NUMBERED = re.compile(r"(\d+)-of-(\d+)")
_CODE = re.compile(r'"code":\s*(\d{1,3})')
_WORD = re.compile(r'"status":\s*"([A-Z_]+)"')
_PHRASES = {known.phrase.lower(): known.value for known in HTTPStatus}


class _Destination(msgspec.Struct, rename="camel"):
    output_uri_prefix: str | None = None


class _OutputConfig(msgspec.Struct, rename="camel"):
    gcs_destination: _Destination | None = None


class _OutputInfo(msgspec.Struct, rename="camel"):
    gcs_output_directory: str | None = None


class _Stats(msgspec.Struct, rename="camel"):
    successful_count: object = 0
    failed_count: object = 0

    def answered(self) -> int:
        return whole(self.successful_count)

    def done(self) -> int:
        return self.answered() + whole(self.failed_count)


class _Job(msgspec.Struct, rename="camel"):
    name: str
    state: str = "JOB_STATE_PENDING"
    display_name: str | None = None
    labels: dict[str, str] | None = None
    create_time: str | None = None
    completion_stats: _Stats | None = None
    output_config: _OutputConfig | None = None
    output_info: _OutputInfo | None = None
    error: RpcError | None = None


class _Created(msgspec.Struct):
    name: str | None = None


class _Jobs(Page):
    batch_prediction_jobs: tuple[object, ...] = ()


class _Labels(msgspec.Struct):
    request_id: str


class _Echo(msgspec.Struct):
    labels: _Labels


class _Line(msgspec.Struct):
    request: _Echo
    status: str | None = None
    processed_time: str | None = None
    response: Content | None = None


_lines = LineDecoder(_Line)


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Vertex is known to refuse or to ignore this judge's settings."""
    if judge.model.rpartition("/")[2].startswith("claude"):
        raise ConfigError(f"{judge.model} is not offered through vertex; use the provider anthropic")
    check_plain(judge)
    check_thinking(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    return Frame.of(
        {"request": content_body(judge, schema=schema, messages=messages) | {"labels": {"request_id": REQUEST_ID}}}
    )


def decode(line: bytes) -> Output:
    """Return what one line of a shard says."""
    return _output(_lines.decode(line))


def decode_lines(block: bytes) -> list[Output]:
    """Return what the lines of a shard say."""
    return list(map(_output, _lines.decode_lines(block)))


def _output(row: _Line) -> Output:
    request_id = row.request.labels.request_id
    if row.status:
        return failed(request_id, _error(row.status))
    output = answered(request_id, row.response)
    if output.judged_at is None:
        return msgspec.structs.replace(output, judged_at=moment_seconds(row.processed_time))
    return output


def _error(status: str) -> RpcError:
    """Return the error inside a line's status: words, then JSON, in a wording that is not documented."""
    code, word = _CODE.search(status), _WORD.search(status)
    number = int(code[1]) if code else _PHRASES.get(status.partition(":")[0].strip().lower())
    return RpcError(code=number, message=status, status=word[1] if word else None)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> "Vertex":
    """Return the provider for the project, the bucket and the credentials of the environment."""
    project, location = _project(settings), _location(settings)
    base = settings.address("GOOGLE_VERTEX_BASE_URL", _host(location))
    emulator = settings.value("STORAGE_EMULATOR_HOST") or _STORAGE
    storage = checked_address(emulator if "://" in emulator else f"http://{emulator}", name="STORAGE_EMULATOR_HOST")
    bucket = Bucket(storage, signer(storage), clock, transport=transport)
    http = Http(base, {}, clock, transport=transport, sign=signer(base))
    return Vertex(http, bucket, project=project, location=location, folder=_folder(settings))


class Vertex:
    """The batch prediction jobs of one project and place."""

    def __init__(self, http: Http, bucket: Bucket, *, project: str, location: str, folder: Place) -> None:
        self.account = fingerprint(Secret(f"{project} {location}"))  # another place lists none of these jobs
        self._http = http
        self._bucket = bucket
        self._folder = folder
        self._jobs = f"/v1/projects/{project}/locations/{location}/batchPredictionJobs"

    def upload(self, submission: Submission) -> str:
        """Write the lines to an object of their own and return its address."""
        place = self._folder / f"in/{submission.batch_key}.jsonl"
        self._bucket.put_new(place, Body(size=submission.size, chunks=submission.chunks))
        return str(place)

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the job, once, and return its name."""
        key = submission.batch_key
        job = {
            "displayName": key,
            "model": _model(submission.judge),
            "labels": {"batch_key": key},
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [file_id]}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": str(self._folder / f"out/{key}")},
            },
        }
        return checked_id(decoded(self._http.post_once(self._jobs, json=job), _Created).name, self._jobs)

    def find(self, sought: Sought) -> list[RemoteBatch]:
        """Return the jobs that carry our key."""
        batch_key = sought.batch_key
        found = remotes(self._all(f'displayName="{batch_key}"'), _remote)
        return carrying(found, lambda batch: batch.batch_key == batch_key, batch_key)

    def _all(self, chosen: str) -> Iterator[Entry[_Job]]:
        for page in google_pages(self._http, self._jobs, _Jobs, {"pageSize": 100, "filter": chosen}):
            yield from entries(raw(page.batch_prediction_jobs), _Job)

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the job as it is now."""
        return _remote(self._http.shown(self._path(remote_id), _Job))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield the bytes of every shard, one after the other.

        A handle that ends with a slash is a prefix of ours that may be empty; under any other results are promised.
        """
        place = Place.of(handle, source="the output of a Vertex job")
        shards = [name for name in self._bucket.names(place) if _SHARD.fullmatch(name.rpartition("/")[2])]
        missing = _missing(shards)
        if missing or not (shards or handle.endswith("/")):
            raise RejectedError(f"{place} lacks {missing or 'its predictions'}; they may still be written", status=404)
        for name in shards:
            last = b"\n"
            for chunk in self._bucket.read(Place(bucket=place.bucket, name=name)):
                last = chunk[-1:] or last
                yield chunk
            if last != b"\n":
                yield b"\n"

    def cancel(self, remote_id: str) -> None:
        """Ask Vertex to stop; a job that has ended meanwhile is no error."""
        self._http.stop(f"{self._path(remote_id)}:cancel")

    def discard(self, file_id: str) -> None:
        """Delete an input object."""
        self._bucket.delete(Place.of(file_id, source="the input of a Vertex job"))

    def check(self) -> str:
        """List one job, which is free."""
        next(google_pages(self._http, self._jobs, _Jobs, {"pageSize": 1}))
        return "jobs can be listed"

    def close(self) -> None:
        """Close every connection."""
        self._http.close()
        self._bucket.close()

    def _path(self, remote_id: str) -> str:
        name = quoted_name(remote_id)
        return f"/v1/{name}" if "/" in name else f"{self._jobs}/{name}"


def _project(settings: Settings) -> str:
    project = settings.value("GOOGLE_CLOUD_PROJECT")
    if project is None:
        raise ConfigError("GOOGLE_CLOUD_PROJECT is not set; export the id of the project that is to pay")
    return _checked("GOOGLE_CLOUD_PROJECT", project)


def _location(settings: Settings) -> str:
    return _checked("GOOGLE_CLOUD_LOCATION", settings.value("GOOGLE_CLOUD_LOCATION") or "global")


def _checked(name: str, value: str) -> str:
    if not _PART.fullmatch(value):
        raise ConfigError(f"{name} is {value!r}; give the bare id, as in us-central1")
    return value


def _host(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in {"us", "eu"}:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _folder(settings: Settings) -> Place:
    given = settings.value(_BUCKET)
    if given is not None:
        return Place.of(given, source=_BUCKET)
    store = settings.store()
    if store.startswith("gs://"):
        return Place(bucket=Place.of(store, source="PAIRLOG_STORE").bucket, name="pairlog-vertex")
    raise ConfigError(f"{_BUCKET} is not set; name the bucket for Vertex's input and output, like gs://bucket/prefix")


def _model(judge: Judge) -> str:
    return judge.model if "/" in judge.model else f"publishers/google/models/{judge.model}"


def _key(job: _Job) -> str | None:
    return (job.labels or {}).get("batch_key") or job.display_name


def _remote(job: _Job) -> RemoteBatch:
    state = plain_state(job.state)
    end = end_of(state)
    stats = job.completion_stats or _Stats()
    handle = _handle(job, end) if end else None
    remote = RemoteBatch(
        remote_id=job.name,
        status=state,
        running=state not in {"pending", "queued"},
        end=end,
        parts={"output": handle} if handle else {},
        lines=_lines_told(stats, state) if job.completion_stats else {},
        faults=batch_faults(job.error) if end == "failed" else (),
        fault=batch_fault(job.error) if end == "failed" else None,
        batch_key=_key(job),
        created_at=moment(job.create_time),
    )
    return keeping_answers(remote, answered=stats.answered() > 0)


def _lines_told(stats: _Stats, state: str) -> dict[str, int]:
    """Return how many lines the shards have together: those of failed requests are sure where all was done."""
    if state == "failed" or end_of(state) is None:
        return {}
    return {"output": stats.done() if state == "succeeded" else stats.answered()}


def _handle(job: _Job, end: End) -> str | None:
    """Return where the results lie; where Vertex does not say, all under our own prefix, if there are any."""
    if job.output_info and job.output_info.gcs_output_directory:
        return job.output_info.gcs_output_directory.rstrip("/")
    destination = job.output_config.gcs_destination if job.output_config else None
    prefix = destination.output_uri_prefix if destination else None
    return prefix and prefix.rstrip("/") + ("" if end == "completed" else "/")


def _missing(shards: list[str]) -> str | None:
    """Return which shard is not there, as far as their names number them."""
    numbered = [match for name in shards if (match := _NUMBERED.search(name.rpartition("/")[2]))]
    totals = {int(match[2]) for match in numbered}
    if len(totals) != 1 or len({int(match[1]) for match in numbered}) == max(totals):
        return None
    return f"{max(totals) - len(numbered)} of {max(totals)} shards"
