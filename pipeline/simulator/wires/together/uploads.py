"""Together's uploads: announced, put to a signed address, read; a file's id follows from its bytes."""

from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import Answered, Call, answer
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.files import StoredFile
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, missing
from pipeline.simulator.wires.together.batches import WIRE

_FIELDS = ("purpose", "file_name", "file_type", "checksum")


class Uploads:
    """The three steps of an upload."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        return [
            route(f"{prefix}/files", "upload", self._announce, method="POST"),
            Route("/together/signed/{file_id}", self._put, methods=["PUT"]),
            route(f"{prefix}/files/{{file_id}}/preprocess", "upload", self._preprocess, method="POST"),
        ]

    async def _announce(self, request: Request) -> Response:
        async with request.form() as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
        for name in _FIELDS:
            if not fields.get(name):
                raise RefusedError(missing(name))
        if fields["purpose"] != "batch-api" or fields["file_type"] != "jsonl":
            raise RefusedError(Problem(message="The simulator takes batch-api files of type jsonl."))
        file_id = _file_id(fields["checksum"])
        if self._engine.files.get(file_id, wire=WIRE) is not None:
            return self._speaker.json({"error": "file already exists", "file_id": file_id}, 409)
        signed = f"{request.base_url}together/signed/{file_id}?name={quote(fields['file_name'])}&signature=simulated"
        return Response(status_code=302, headers={"location": signed, "x-together-file-id": file_id})

    async def _put(self, request: Request) -> Response:
        """Take the bytes as a store would: it knows the signature, not the key, and refuses both together."""

        def refuse(status: int, *, quota: bool) -> Response:  # noqa: ARG001 - as `Refuse` has it
            return Response(status_code=status)

        async def act() -> Response:
            content = await request.body()
            return await run_in_threadpool(self._keep, request, content)

        def seen(answered: Answered) -> None:
            """Note nothing: the file itself is noted."""

        return await answer(self._engine, Call(name="upload", request=request, act=act, refuse=refuse, seen=seen))

    def _keep(self, request: Request, content: bytes) -> Response:
        file_id = request.path_params["file_id"]
        signed = request.query_params.get("signature") == "simulated"
        if "authorization" in request.headers or not signed or file_id != _file_id(digest(content)):
            return Response("<Error><Code>InvalidRequest</Code></Error>", 400, media_type="application/xml")
        engine, path = self._engine, self._engine.files.path_of(file_id)
        path.write_bytes(content)
        file = StoredFile(
            file_id=file_id,
            wire=WIRE,
            filename=request.query_params.get("name", ""),
            purpose="batch-api",
            bytes=len(content),
            created_at=engine.now(),
            expires_at=None,
            path=path,
        )
        engine.files.add(file)
        self._speaker.record_file(file, "uploaded", file.bytes)
        return Response(status_code=200)

    async def _preprocess(self, request: Request) -> Response:
        file = self._engine.files.get(request.path_params["file_id"], wire=WIRE)
        if file is None:
            raise RefusedError(Problem(message="The file was not put yet.", status=404))
        return self._speaker.json(rendered_file(file))


def _file_id(checksum: str) -> str:
    return f"file-{digest(checksum.encode())[:24]}"


def rendered_file(file: StoredFile) -> JsonObject:
    """Return the file as Together shows it."""
    return {
        "id": file.file_id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "filename": file.filename,
        "FileType": "jsonl",
        "purpose": "batch-api",
        "processing_status": "COMPLETED",
        "LineCount": 0,
        "Processed": True,
    }
