"""AWS Bedrock: model invocation jobs that read lines from S3 and write theirs there, through boto3.

Odd about it: `clientRequestToken` is a real idempotency token: a create that is made twice with our key makes one job.
Lines differ by maker: Claude is asked in Anthropic's words, all others in those of Converse. Answers lie under a prefix
of the batch's own, in a folder named after the job. Bedrock wants a minimum of lines (commonly 100) and has maxima, all
of them quotas of the model: those here are the common ones. `PartiallyCompleted` is an expiry with answers.
`PAIRLOG_BEDROCK_BUCKET` is `s3://bucket/prefix`, `PAIRLOG_BEDROCK_ROLE` the role Bedrock reads and writes it with;
everything else is set as for any AWS tool.
"""

import contextlib
import functools
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, TypeVar

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, REQUEST_ID, Answer, Frame, Judge, Limits, Message, Mode
from pipeline.errors import ConfigError, OutcomeUnknownError, RejectedError, UnavailableError
from pipeline.events import End, LineFault
from pipeline.providers import RemoteBatch, Sought, Submission
from pipeline.providers._asking import check_plain
from pipeline.providers._aws import Clients, clients
from pipeline.providers._bedrock import check_model, decode_line, invocation, model_input
from pipeline.providers._compatible import SKEW
from pipeline.providers._failures import failure, keeping_answers
from pipeline.providers._http import repeated
from pipeline.providers._lenient import lenient_value
from pipeline.providers._listings import cut_short, pages
from pipeline.settings import Settings

T = TypeVar("T")
_Listed = dict[str, Any]  # as the library hands it over

MODES: tuple[Mode, ...] = ("batch",)
ANSWERS: tuple[Answer, ...] = ("tag",)
KEYS: tuple[str, ...] = ("PAIRLOG_BEDROCK_BUCKET",)
LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)
ID_PATH = ("recordId",)

decode = decode_line

_BUCKET, _ROLE = "PAIRLOG_BEDROCK_BUCKET", "PAIRLOG_BEDROCK_ROLE"
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/*")
_NOT_IN_TOKENS = re.compile(r"[^a-zA-Z0-9]+")
_PAGE = 1000
_BLOCK = 1 << 20
_ENDS: dict[str, End] = {
    "completed": "completed",
    "partiallycompleted": "expired",
    "failed": "failed",
    "stopped": "cancelled",
    "expired": "expired",
}


class _Place(msgspec.Struct, frozen=True):
    """An object, or a folder of them, in S3."""

    bucket: str
    key: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class _Output(msgspec.Struct, rename="camel"):
    s3_uri: str | None = None


class _OutputConfig(msgspec.Struct):
    s3: _Output | None = msgspec.field(default=None, name="s3OutputDataConfig")


class _Job(msgspec.Struct, rename="camel"):
    job_arn: str
    status: str = "unknown"
    job_name: str | None = None
    client_request_token: str | None = None
    message: str | None = None
    submit_time: datetime | None = None
    output_data_config: _OutputConfig | None = None
    total_record_count: int | None = None
    success_record_count: int | None = None
    error_record_count: int | None = None


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Bedrock is known to refuse this judge, or cannot be asked for it."""
    check_plain(judge)
    check_model(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:  # noqa: ARG001 - check_judge refuses one
    """Return the request line with gaps for id and messages."""
    return Frame.of({"recordId": REQUEST_ID, "modelInput": model_input(judge, messages)})


def build(
    settings: Settings,
    clock: Clock,
    *,
    transport: httpx.BaseTransport | None = None,  # noqa: ARG001 - boto3 has its own
) -> "Bedrock":
    """Return the provider for the account, bucket and role of the environment."""
    given, role = settings.value(_BUCKET), settings.value(_ROLE)
    if given is None or role is None:
        raise ConfigError(f"{_BUCKET} or {_ROLE} is not set; Bedrock reads from the one with the rights of the other")
    return Bedrock(clients(settings), _place(given), clock, role=role)


def _place(uri: str) -> _Place:
    found = _URI.fullmatch(uri)
    if found is None:
        raise ConfigError(f"{_BUCKET} is {uri!r}; give a bucket and a prefix, like s3://my-bucket/pairlog")
    return _Place(found[1], found[2] or "")


@contextlib.contextmanager
def _kept(submission: Submission) -> Iterator[IO[bytes]]:
    """Keep the lines in a temporary file: S3 wants to read them again where a call is repeated."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
            file.writelines(submission.chunks())
            file.flush()
        except OSError as error:
            where = f"no temporary file in {tempfile.gettempdir()}: {error.strerror}"
            raise UnavailableError(f"{where}; free some space there, or set TMPDIR") from error
        yield file


class Bedrock:
    """Jobs on objects."""

    def __init__(self, made: Clients, root: _Place, clock: Clock, *, role: str) -> None:
        self.account = made.account
        self._bedrock, self._s3 = made.bedrock, made.s3
        self._translated = made.translated
        self._root = root
        self._clock = clock
        self._role = role

    def upload(self, submission: Submission) -> str:
        """Write the lines to S3 under our key and return where they are."""
        place = self._below(f"in/{submission.batch_key}.jsonl")
        with _kept(submission) as file:

            def put() -> None:
                file.seek(0)
                self._s3.put_object(Bucket=place.bucket, Key=place.key, Body=file, ContentLength=submission.size)

            self._asked(f"PUT {place.uri}", put)
        return place.uri

    def _asked(self, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns that does no harm when it is made twice."""

        def once() -> T:
            with self._translated(what):
                return call()

        return repeated(once, self._clock)

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the job and return its ARN; the token makes one job of any number of calls."""
        with self._translated("CreateModelInvocationJob", creates=True):
            answer: dict[str, Any] = self._bedrock.create_model_invocation_job(  # as the library hands it over
                jobName=submission.batch_key,
                clientRequestToken=_token(submission.batch_key),
                roleArn=self._role,
                modelId=submission.judge.model,
                modelInvocationType=invocation(submission.judge),
                inputDataConfig={"s3InputDataConfig": {"s3Uri": file_id, "s3InputFormat": "JSONL"}},
                outputDataConfig={"s3OutputDataConfig": {"s3Uri": self._below(f"out/{submission.batch_key}/").uri}},
                timeoutDurationInHours=24,
            )
        arn = answer.get("jobArn")
        if not isinstance(arn, str) or not arn:
            raise OutcomeUnknownError("CreateModelInvocationJob answered without an ARN")
        return arn

    def find(self, sought: Sought) -> list[RemoteBatch]:
        """Return the jobs named after our key."""
        batch_key = sought.batch_key
        token = _token(batch_key)
        jobs = self._jobs(nameContains=batch_key, submitTimeAfter=sought.since - SKEW, maxResults=_PAGE)
        return [
            self._remote(job, batch_key)
            for job in jobs
            if token == job.client_request_token or job.job_name == batch_key
        ]

    def _jobs(self, **query: object) -> Iterator[_Job]:
        def page_at(token: str | None) -> _Listed:
            more = {"nextToken": token} if token else {}
            return self._asked(
                "ListModelInvocationJobs",
                functools.partial(self._bedrock.list_model_invocation_jobs, **query, **more),
            )

        for page in pages("/model-invocation-jobs", page_at, lambda page: page.get("nextToken")):
            if "invocationJobSummaries" not in page:
                raise UnavailableError("ListModelInvocationJobs answered without a list")
            yield from (_job(summary) for summary in page["invocationJobSummaries"])

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the job as it is now."""
        get = functools.partial(self._bedrock.get_model_invocation_job, jobIdentifier=remote_id)
        job = _job(self._asked("GetModelInvocationJob", get))
        return self._remote(job, job.job_name)

    def _remote(self, job: _Job, batch_key: str | None) -> RemoteBatch:
        status = job.status.lower()
        end = _ENDS.get(status)
        parts = self._parts(job) if end else {}
        remote = RemoteBatch(
            remote_id=job.job_arn,
            status=status,
            running=status not in {"submitted", "validating", "scheduled"},
            end=end,
            parts=parts,
            lines=_lines_told(job, end) if len(parts) <= 1 else {},
            faults=(LineFault(line=None, reason=job.message[:300]),) if job.message and end == "failed" else (),
            fault=failure(job.message or "") if end == "failed" else None,
            batch_key=batch_key,
            requests=job.total_record_count or None,
            created_at=job.submit_time,
        )
        return keeping_answers(remote, answered=bool(parts), counted=job.success_record_count)

    def _parts(self, job: _Job) -> dict[str, str]:
        """Return every object with answers the job left under its prefix."""
        config = job.output_data_config
        folder = _place(config.s3.s3_uri) if config and config.s3 and config.s3.s3_uri else None
        if folder is None:
            return {}
        places = [place.uri for place in self._objects(folder) if place.key.endswith(".jsonl.out")]
        return {f"output{number}" if number else "output": uri for number, uri in enumerate(sorted(places))}

    def _objects(self, folder: _Place) -> Iterator[_Place]:
        listed = functools.partial(self._s3.list_objects_v2, Bucket=folder.bucket, Prefix=f"{folder.key}/")

        def page_at(token: str | None) -> _Listed:
            more = {"ContinuationToken": token} if token else {}
            return self._asked(f"list {folder.uri}", functools.partial(listed, **more))

        def token_of(page: _Listed) -> str | None:
            if page.get("IsTruncated") and not page.get("NextContinuationToken"):
                raise cut_short(folder.uri)
            return page.get("NextContinuationToken")

        for page in pages(folder.uri, page_at, token_of):
            yield from (_Place(folder.bucket, found["Key"]) for found in page.get("Contents", ()))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield one object's bytes as they arrive."""
        place = _place(handle)
        with self._translated(f"GET {handle}"):
            answer = self._s3.get_object(Bucket=place.bucket, Key=place.key)
            yield from answer["Body"].iter_chunks(_BLOCK)

    def cancel(self, remote_id: str) -> None:
        """Ask Bedrock to stop; a job that has ended meanwhile is no error."""
        try:
            stop = functools.partial(self._bedrock.stop_model_invocation_job, jobIdentifier=remote_id)
            self._asked("StopModelInvocationJob", stop)
        except (RejectedError, UnavailableError) as error:
            if "ConflictException" not in str(error) and "ValidationException" not in str(error):
                raise

    def discard(self, file_id: str) -> None:
        """Delete an uploaded input; S3 does not mind one that is gone."""
        place = _place(file_id)
        self._asked(f"DELETE {file_id}", functools.partial(self._s3.delete_object, Bucket=place.bucket, Key=place.key))

    def check(self) -> str:
        """List the jobs, which is free."""
        found = next(self._jobs(maxResults=1), None)
        return "jobs can be listed" if found else "no jobs yet"

    def close(self) -> None:
        """Close every connection."""
        self._bedrock.close()
        self._s3.close()

    def _below(self, name: str) -> _Place:
        return _Place(self._root.bucket, f"{self._root.key}/{name}" if self._root.key else name)


def _lines_told(job: _Job, end: End | None) -> dict[str, int]:
    """Return how many lines the one object has: errors are among them; what a job did not get to has none."""
    if end is None or end == "failed" or job.success_record_count is None:
        return {}
    return {"output": job.success_record_count + (job.error_record_count or 0 if end == "completed" else 0)}


def _token(batch_key: str) -> str:
    return _NOT_IN_TOKENS.sub("-", batch_key).strip("-")


def _job(answer: Mapping[str, object]) -> _Job:
    try:
        return lenient_value(answer, _Job)
    except msgspec.ValidationError as error:
        raise UnavailableError(f"the answer cannot be read: {error}") from error
