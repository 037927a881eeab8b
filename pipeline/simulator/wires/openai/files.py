"""OpenAI's file routes: upload, list, look up, download, delete."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import download
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.files import StoredFile
from pipeline.simulator.running import KEPT_SECONDS
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, invalid, listing, missing, page_of, whole_number

_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_MOST_BYTES = 512 * 1024 * 1024
LIFETIME = range(3_600, 2_592_001)


class FileRoutes:
    """The routes under `/files`."""

    def __init__(self, speaker: OpenAISpeaker, *, rendered: Callable[[StoredFile], JsonObject] | None = None) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._rendered = rendered or rendered_file

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        return [
            route(f"{prefix}/files", "upload", self._upload, method="POST"),
            route(f"{prefix}/files", "list", self._list),
            route(f"{prefix}/files/{{file_id}}", "poll", self._retrieve),
            route(f"{prefix}/files/{{file_id}}", "delete", self._delete, method="DELETE"),
            route(f"{prefix}/files/{{file_id}}/content", "download", self._content),
        ]

    async def _upload(self, request: Request) -> Response:
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise RefusedError(Problem(message="Invalid body: expected multipart/form-data."))
        async with request.form() as form:
            purpose, upload = form.get("purpose"), form.get("file")
            if not isinstance(upload, UploadFile):
                raise RefusedError(missing("file"))
            if not isinstance(purpose, str):
                raise RefusedError(missing("purpose"))
            if purpose not in _PURPOSES:
                raise RefusedError(invalid("purpose", f"'{purpose}' is not one of {list(_PURPOSES)} - 'purpose'"))
            lifetime = _lifetime(form)
            file = await run_in_threadpool(self._keep, upload, purpose, lifetime)
        return self._speaker.json(self._rendered(file))

    def _keep(self, upload: UploadFile, purpose: str, lifetime: float) -> StoredFile:
        file_id = f"file-{self._engine.clock.nonce()[-22:]}"
        path = self._engine.files.write(file_id, upload.file)
        size = path.stat().st_size
        if size > _MOST_BYTES:
            path.unlink()
            raise RefusedError(Problem(message=f"The file has {size} bytes; {_MOST_BYTES} are allowed.", status=413))
        now = self._engine.now()
        file = StoredFile(
            file_id=file_id,
            wire=self._speaker.wire,
            filename=upload.filename or "upload",
            purpose=purpose,
            bytes=size,
            created_at=now,
            expires_at=now + lifetime,
            path=path,
        )
        self._speaker.record_file(file, "uploaded", size)
        return self._engine.files.add(file)

    async def _list(self, request: Request) -> Response:
        limit = whole_number(request, "limit", default=10_000, most=10_000)
        files = self._engine.files.all(wire=self._speaker.wire)
        if request.query_params.get("order", "desc") == "desc":
            files.reverse()
        purpose = request.query_params.get("purpose")
        shown = [file for file in files if purpose in (None, file.purpose)]
        page = page_of([file.file_id for file in shown], request, limit)
        return self._speaker.json(listing([self._rendered(file) for file in shown[page]], more=page.stop < len(shown)))

    async def _retrieve(self, request: Request) -> Response:
        return self._speaker.json(self._rendered(self._found(request)))

    async def _delete(self, request: Request) -> Response:
        file = self._found(request)
        self._engine.files.delete(file.file_id)
        self._speaker.record_file(file, "deleted", 0)
        return self._speaker.json({"id": file.file_id, "object": "file", "deleted": True})

    async def _content(self, request: Request) -> Response:
        file = self._found(request)
        self._speaker.record_file(file, "downloaded", file.bytes)
        disposition = f'attachment; filename="{file.filename}"'
        return await download(self._engine, request, file.path, {"content-disposition": disposition})

    def _found(self, request: Request) -> StoredFile:
        file_id = request.path_params["file_id"]
        file = self._engine.files.get(file_id, wire=self._speaker.wire)
        if file is None:
            raise RefusedError(Problem(message=f"No such File object: {file_id}", status=404, param="id"))
        return file


def _lifetime(form: FormData) -> float:
    anchor, seconds = form.get("expires_after[anchor]"), form.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return KEPT_SECONDS
    if anchor != "created_at":
        raise RefusedError(invalid("expires_after[anchor]", "The only anchor is 'created_at'."))
    if not isinstance(seconds, str) or not seconds.isdecimal() or int(seconds) not in LIFETIME:
        raise RefusedError(invalid("expires_after[seconds]", "Seconds must be between 3600 and 2592000."))
    return float(seconds)


def rendered_file(file: StoredFile) -> JsonObject:
    """Return the file as OpenAI shows it."""
    return {
        "id": file.file_id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": None if file.expires_at is None else int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }
