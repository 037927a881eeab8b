"""What every route of any wire does first: check the key, meet the faults; and what all wires write into the ledger."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import Answered, Call, answer, notes_of
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.jobs import Job, Order
from pipeline.simulator.ledger import CreateReceived, FileAction, FileTouched

Handler = Callable[[Request], Awaitable[Response]]
Seen = Callable[[Request, Answered], None]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call or a request is refused: a sentence, an HTTP status, and the provider's word for the kind.

    OpenAI and Anthropic have the same word for most; `param` and `code` are OpenAI's.
    """

    message: str
    status: int = 400
    kind: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None


class RefusedError(Exception):
    """Ends a handler with a refusal."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Manner(Protocol):
    """How one provider takes keys and words refusals."""

    def key(self, request: Request) -> str:
        """Return the key of a call, empty if it has none."""
        ...

    def key_problem(self, request: Request, accepted: tuple[str, ...]) -> Problem | None:
        """Return why the call is refused before anything else is read, if it is."""
        ...

    def struck(self, status: int, *, quota: bool) -> Problem:
        """Return what the provider says when a fault makes it answer with this status."""
        ...

    def refusal(self, problem: Problem, *, mark: str) -> Response:
        """Return the answer that says so."""
        ...


class Speaker:
    """Makes routes of handlers, and ledger entries of calls, for one wire."""

    def __init__(self, engine: Engine, wire: str, manner: Manner) -> None:
        self.engine = engine
        self.wire = wire
        self._manner = manner

    def route(
        self,
        path: str,
        call: str,
        handler: Handler,
        *,
        method: str = "GET",
        seen: Seen | None = None,
        reads_first: bool = False,
    ) -> Route:
        """Return a route that checks the key, meets the faults of `call`, and only then asks the handler.

        One that `reads_first` has the body in its notes also for `seen`, whatever becomes of the call.
        """

        async def endpoint(request: Request) -> Response:
            if reads_first:
                notes_of(request).body = await request.body()
            return await self._speak(request, call, handler, seen)

        return Route(path, endpoint, methods=[method], name=f"{method} {path}")

    async def _speak(self, request: Request, call: str, handler: Handler, seen: Seen | None) -> Response:
        async def act() -> Response:
            try:
                return await handler(request)
            except RefusedError as error:
                return self._refusal(error.problem)

        def tell(answered: Answered) -> None:
            if seen is not None:
                seen(request, answered)

        def refuse(status: int, *, quota: bool) -> Response:
            return self._refusal(self._manner.struck(status, quota=quota))

        problem = self._manner.key_problem(request, self.engine.settings.api_keys)
        if problem is not None:
            tell(Answered(status=problem.status, fault=None, applied=False))
            return self._refusal(problem)
        return await answer(self.engine, Call(name=call, request=request, act=act, refuse=refuse, seen=tell))

    def _refusal(self, problem: Problem) -> Response:
        return self._manner.refusal(problem, mark=self.engine.clock.nonce())

    def create(self, request: Request, order: Order, batch_id: str, *, remote_id: str | None = None) -> Job:
        """Return a new batch of this id and note it; one that a fault applies late begins later."""
        notes = notes_of(request)
        notes.batch_id = batch_id
        return self.engine.create_job(order, batch_id=batch_id, remote_id=remote_id, delay=notes.delay)

    def record_create(self, request: Request, answered: Answered) -> None:
        """Write down a call to create a batch, also one that is refused, by what is noted about it."""
        notes = notes_of(request)
        self.engine.ledger.record(
            CreateReceived(
                at=self.engine.now(),
                wire=self.wire,
                account=digest(self._manner.key(request).encode())[:12],
                input_file_id=notes.input_file_id,
                metadata=notes.metadata,
                outcome="applied" if answered.applied else "refused",
                status=answered.status,
                batch_id=notes.batch_id if answered.applied else None,
                fault=answered.fault,
            )
        )

    def record_file(self, file: StoredFile, action: FileAction, size: int) -> None:
        """Write down what was done to a file."""
        self.engine.ledger.record(
            FileTouched(
                at=self.engine.now(),
                wire=self.wire,
                file_id=file.file_id,
                action=action,
                filename=file.filename,
                bytes=size,
            )
        )


def json_answer(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json")


def iso_time(seconds: float) -> str:
    """Return a time as most providers write it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
