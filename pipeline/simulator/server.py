"""Serves the simulator over HTTP on the loopback address, in a thread or for as long as a command runs."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.clock import Clock, SystemClock
from pipeline.errors import ConfigError, PipelineError
from pipeline.simulator.app import app_of
from pipeline.simulator.calls import CUT
from pipeline.simulator.engine import Engine
from pipeline.simulator.judge import Judge
from pipeline.simulator.ledger import Ledger
from pipeline.simulator.settings import SimulatorSettings

_HOST = "127.0.0.1"
PATHS = {  # where each provider's wire begins, by the variable its clients read the address from
    "OPENAI_BASE_URL": "/v1",
    "TOGETHER_BASE_URL": "/together",
    "GROQ_BASE_URL": "/groq",
    "MISTRAL_BASE_URL": "/mistral",
    "AZURE_OPENAI_ENDPOINT": "/azure",
    "XAI_BASE_URL": "/xai/v1",
    "AWS_ENDPOINT_URL": "/aws",
    "OLLAMA_HOST": "/ollama",
    "PAIRLOG_COMPATIBLE_BASE_URL": "/compatible/v1",
    "ANTHROPIC_BASE_URL": "/anthropic",
    "GOOGLE_GEMINI_BASE_URL": "/gemini",
    "GOOGLE_VERTEX_BASE_URL": "/vertex",
}
_PATIENCE_SECONDS = 10
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class _Cuttable:
    """Gives routes a way to close their connection, for which ASGI has none: uvicorn's own transport."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            transport: asyncio.Transport = send.__self__.transport  # type: ignore[attr-defined]  # uvicorn's cycle

            def cut(reset: bool) -> None:  # noqa: FBT001 - called through the ASGI scope
                if reset:
                    connection = transport.get_extra_info("socket")
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                    transport.abort()
                else:
                    transport.close()

            scope.setdefault("extensions", {})[CUT] = cut
        await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that says when it listens, and ends at once where uvicorn alone takes a fifth of a second."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                _Cuttable(app),
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="off",
                proxy_headers=False,
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=1,
            )
        )
        self.ready = threading.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as the signal module calls it
        """End in good order; unlike uvicorn's own, do not let the signal kill the process afterwards."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell whoever waits."""
        await super().startup(sockets)
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.ready.set()

    async def main_loop(self) -> None:
        """Serve until it is over, for which uvicorn looks ten times a second."""
        ticks, over = asyncio.create_task(super().main_loop()), asyncio.create_task(self._over.wait())
        await asyncio.wait((ticks, over), return_when=asyncio.FIRST_COMPLETED)
        ticks.cancel()
        over.cancel()

    def end(self) -> None:
        """Let it be over, from whatever thread."""
        self.should_exit = True
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._over.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close; only where somebody is connected, give them the time that uvicorn always gives."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for listener in self.servers:
            listener.close()
            await listener.wait_closed()


def _listen(port: int) -> socket.socket:
    """Return a listening socket that says it is TCP: else asyncio leaves a delay of 40 ms in every answer."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(f"port {port} of {_HOST} cannot be used ({error.strerror}): choose another") from error
    return listener


class Simulator:
    """A running simulator: a context manager that serves from a thread of its own."""

    def __init__(self, settings: SimulatorSettings | None = None, clock: Clock | None = None) -> None:
        self._settings = settings or SimulatorSettings()
        self._clock = clock or SystemClock()

    def __enter__(self) -> Self:
        self.engine = Engine(self._settings, self._clock)
        self._listener = _listen(self._settings.port)
        self.port: int = self._listener.getsockname()[1]
        self._server = _Server(app_of(self.engine))
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()
        if not self._server.ready.wait(timeout=_PATIENCE_SECONDS):
            raise PipelineError(f"the simulator did not start within {_PATIENCE_SECONDS} seconds")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.end()
        self._thread.join(timeout=_PATIENCE_SECONDS)
        self._listener.close()
        self.engine.close()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"http://{_HOST}:{self.port}"

    @property
    def openai_base_url(self) -> str:
        """What `OPENAI_BASE_URL` is to be."""
        return self.url + PATHS["OPENAI_BASE_URL"]

    @property
    def together_base_url(self) -> str:
        """What `TOGETHER_BASE_URL` is to be."""
        return self.url + PATHS["TOGETHER_BASE_URL"]

    @property
    def groq_base_url(self) -> str:
        """What `GROQ_BASE_URL` is to be."""
        return self.url + PATHS["GROQ_BASE_URL"]

    @property
    def mistral_base_url(self) -> str:
        """What `MISTRAL_BASE_URL` is to be."""
        return self.url + PATHS["MISTRAL_BASE_URL"]

    @property
    def azure_endpoint(self) -> str:
        """What `AZURE_OPENAI_ENDPOINT` is to be."""
        return self.url + PATHS["AZURE_OPENAI_ENDPOINT"]

    @property
    def xai_base_url(self) -> str:
        """What `XAI_BASE_URL` is to be."""
        return self.url + PATHS["XAI_BASE_URL"]

    @property
    def aws_endpoint_url(self) -> str:
        """What `AWS_ENDPOINT_URL` is to be, for Bedrock and S3."""
        return self.url + PATHS["AWS_ENDPOINT_URL"]

    @property
    def ollama_host(self) -> str:
        """What `OLLAMA_HOST` is to be."""
        return self.url + PATHS["OLLAMA_HOST"]

    @property
    def compatible_base_url(self) -> str:
        """What `PAIRLOG_COMPATIBLE_BASE_URL` is to be."""
        return self.url + PATHS["PAIRLOG_COMPATIBLE_BASE_URL"]

    @property
    def anthropic_base_url(self) -> str:
        """What `ANTHROPIC_BASE_URL` is to be."""
        return self.url + PATHS["ANTHROPIC_BASE_URL"]

    @property
    def gemini_base_url(self) -> str:
        """What `GOOGLE_GEMINI_BASE_URL` is to be."""
        return self.url + PATHS["GOOGLE_GEMINI_BASE_URL"]

    @property
    def vertex_base_url(self) -> str:
        """What `GOOGLE_VERTEX_BASE_URL` is to be, and `STORAGE_EMULATOR_HOST` for the bucket Vertex works on."""
        return self.url + PATHS["GOOGLE_VERTEX_BASE_URL"]

    @property
    def ledger(self) -> Ledger:
        """What was done and billed."""
        return self.engine.ledger

    @property
    def judge(self) -> Judge:
        """The judge, who knows the true qualities."""
        return self.engine.judge


def environment(url: str) -> dict[str, str]:
    """Return what to export so that the providers' clients talk to the simulator at this address."""
    keys = ("OPENAI", "ANTHROPIC", "GEMINI", "TOGETHER", "GROQ", "MISTRAL", "XAI", "AZURE_OPENAI")
    return {
        **{name: url + path for name, path in PATHS.items() if name != "AWS_ENDPOINT_URL"},
        **{f"{name}_API_KEY": "simulated" for name in keys},
        "STORAGE_EMULATOR_HOST": url + PATHS["GOOGLE_VERTEX_BASE_URL"],
        "GOOGLE_CLOUD_PROJECT": "simulated",
        "PAIRLOG_VERTEX_BUCKET": "gs://simulated",
    }


def serve(
    settings: SimulatorSettings, clock: Clock | None = None, *, ready: Callable[[str], None] | None = None
) -> None:
    """Serve until interrupted; `ready` is told the address before the first call is answered."""
    listener = _listen(settings.port)
    if ready is not None:
        ready(f"http://{_HOST}:{listener.getsockname()[1]}")
    engine = Engine(settings, clock or SystemClock())
    try:
        _Server(app_of(engine)).run([listener])
    finally:
        listener.close()
        engine.close()
