"""Gemini's file routes: resumable upload, look up, list, download, delete."""

from datetime import timedelta
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import download
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.wires._google.speaking import GoogleManner, decoded, invalid, problem_of, time_of
from pipeline.simulator.wires._speaking import RefusedError, Speaker, json_answer

_MOST_BYTES = 2 * 10**9
_GRANULARITY = 256 * 1024
_KEPT = timedelta(hours=48).total_seconds()


class _Upload(msgspec.Struct, kw_only=True):
    """An upload that has begun: so many of its bytes are there."""

    name: str
    display_name: str
    size: int
    path: Path
    received: int = 0


class FileRoutes:
    """The routes under `/files`."""

    def __init__(self, engine: Engine, wire: str) -> None:
        self._engine = engine
        self._wire = wire
        self._speaker = Speaker(engine, wire, GoogleManner(needs_key=True))
        self._sending = Speaker(engine, wire, GoogleManner(needs_key=False))
        self._uploads: dict[str, _Upload] = {}

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        file = f"{prefix}/{{version}}/files/{{file}}"
        return [
            self._sending.route(f"{prefix}/upload/{{version}}/files", "upload", self._upload, method="POST"),
            route(f"{prefix}/{{version}}/files", "list", self._list),
            route(f"{file}:download", "download", self._download),
            route(f"{prefix}/download/{{version}}/files/{{file}}:download", "download", self._download),
            route(file, "poll", self._retrieve),
            route(file, "delete", self._delete, method="DELETE"),
        ]

    async def _upload(self, request: Request) -> Response:
        if "upload_id" in request.query_params:
            return await self._receive(request)
        problem = GoogleManner(needs_key=True).key_problem(request, self._engine.settings.api_keys)
        if problem is not None:
            raise RefusedError(problem)
        return self._start(request, decoded(await request.body()).get("file") or {})

    def _start(self, request: Request, wish: JsonObject) -> Response:
        headers = request.headers
        size = headers.get("x-goog-upload-header-content-length", "")
        if headers.get("x-goog-upload-protocol") != "resumable" or headers.get("x-goog-upload-command") != "start":
            raise RefusedError(invalid("Upload protocol must be resumable and the command start."))
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            raise RefusedError(invalid("X-Goog-Upload-Header-Content-Length must be given, at most 2 GB."))
        mark = self._engine.clock.nonce()[-12:]
        name = str(wish.get("name") or f"files/in{mark}")
        display_name = str(wish.get("displayName") or wish.get("display_name") or "")
        path = self._engine.files.path_of(f"upload-{mark}")
        path.touch()
        self._uploads[mark] = _Upload(name=name, display_name=display_name, size=int(size), path=path)
        address = f"{request.url.replace(query=None)}?upload_id={mark}&upload_protocol=resumable"
        answer = {
            "x-goog-upload-url": address,
            "x-goog-upload-control-url": address,
            "x-goog-upload-status": "active",
            "x-goog-upload-chunk-granularity": str(_GRANULARITY),
        }
        return Response(b"", headers=answer)

    async def _receive(self, request: Request) -> Response:
        upload = self._uploads.get(request.query_params["upload_id"])
        if upload is None:
            raise RefusedError(problem_of(404, "There is no such upload."))
        command = [word.strip() for word in request.headers.get("x-goog-upload-command", "").split(",")]
        if request.headers.get("x-goog-upload-offset") != str(upload.received) or "upload" not in command:
            raise RefusedError(invalid(f"The upload goes on at offset {upload.received}."))
        content = await request.body()
        if "finalize" not in command and len(content) % _GRANULARITY:
            raise RefusedError(invalid(f"A chunk must be a multiple of {_GRANULARITY} bytes."))
        await run_in_threadpool(_append, upload, content)
        if "finalize" not in command:
            return Response(b"", headers={"x-goog-upload-status": "active"})
        if upload.received != upload.size:
            raise RefusedError(invalid(f"{upload.received} bytes came, {upload.size} were announced."))
        file = self._added(upload)
        self._uploads.pop(request.query_params["upload_id"])
        return json_answer({"file": rendered(file)}, headers={"x-goog-upload-status": "final"})

    def _added(self, upload: _Upload) -> StoredFile:
        now = self._engine.now()
        file = StoredFile(
            file_id=upload.name,
            wire=self._wire,
            filename=upload.display_name,
            purpose="uploaded",
            bytes=upload.size,
            created_at=now,
            expires_at=now + _KEPT,
            path=upload.path,
        )
        self._speaker.record_file(file, "uploaded", upload.size)
        return self._engine.files.add(file)

    async def _list(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        files = [rendered(file) for file in self._engine.files.all(wire=self._wire) if file.purpose == "uploaded"]
        return json_answer({"files": files} if files else {})

    async def _retrieve(self, request: Request) -> Response:
        return json_answer(rendered(self._found(request)))

    async def _download(self, request: Request) -> Response:
        file = self._found(request)
        if file.purpose == "uploaded" or request.query_params.get("alt") != "media":
            raise RefusedError(invalid("Only generated files can be downloaded, with alt=media."))
        self._speaker.record_file(file, "downloaded", file.bytes)
        return await download(self._engine, request, file.path, {})

    async def _delete(self, request: Request) -> Response:
        file = self._found(request)
        self._engine.files.delete(file.file_id)
        self._speaker.record_file(file, "deleted", 0)
        return json_answer({})

    def _found(self, request: Request) -> StoredFile:
        given = request.path_params["file"]
        files = self._engine.files
        generated = files.get(given.removeprefix("batch-"), wire=self._wire) if given.startswith("batch-") else None
        file = generated or files.get(f"files/{given}", wire=self._wire)
        if file is None:
            message = f"You do not have permission to access the File {given} or it may not exist."
            raise RefusedError(problem_of(403 if request.method == "GET" else 404, message))
        return file


def _append(upload: _Upload, content: bytes) -> None:
    with upload.path.open("ab") as file:
        file.write(content)
    upload.received += len(content)


def output_name(file_id: str) -> str:
    """Return the name under which a file that a batch wrote can be downloaded."""
    return f"files/batch-{file_id}"


def rendered(file: StoredFile) -> JsonObject:
    """Return the file as Gemini shows it."""
    uploaded = file.purpose == "uploaded"
    shown = {
        "name": file.file_id if uploaded else output_name(file.file_id),
        "mimeType": "application/jsonl",
        "sizeBytes": str(file.bytes),
        "createTime": time_of(file.created_at),
        "updateTime": time_of(file.created_at),
        "state": "ACTIVE",
        "source": "UPLOADED" if uploaded else "GENERATED",
    }
    if file.expires_at is not None:
        shown["expirationTime"] = time_of(file.expires_at)
    return shown | ({"displayName": file.filename} if uploaded and file.filename else {})
