"""What the tests of the simulator say to it: OpenAI's wire in its plainest form, over any httpx client."""

import json
from typing import Any

import httpx
from starlette.testclient import TestClient

from pipeline.clock import Clock
from pipeline.simulator import SimulatorSettings, build_app, parse_faults
from pipeline.simulator.engine import Engine

CHAT = "/v1/chat/completions"
KEY = {"authorization": "Bearer sk-simulated"}
PROMPT = """Which text is better?
<SAMPLE_1>
{first}
</SAMPLE_1>
<SAMPLE_2>
{second}
</SAMPLE_2>
Answer <BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE> or <BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>."""
VERDICT = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
    "required": ["better"],
    "additionalProperties": False,
}


def a_prompt(first: str = "One text.", second: str = "Another text.") -> str:
    return PROMPT.format(first=first, second=second)


def a_chat(content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-6-luna", "messages": [{"role": "user", "content": content or a_prompt()}], **more}


def a_line(custom_id: str = "r0", body: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = a_chat(a_prompt(f"Text of {custom_id}.")) if body is None else body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **more}


def jsonl(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def some_lines(count: int) -> bytes:
    return jsonl(*(a_line(f"r{number}") for number in range(count)))


def rows(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.split(b"\n") if line.strip()]


class Wire:
    """Speaks to a simulator."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def upload(self, content: bytes, name: str = "input.jsonl") -> str:
        answer = self.http.post("/v1/files", data={"purpose": "batch"}, files={"file": (name, content)}, headers=KEY)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def create(self, file_id: str, **more: Any) -> httpx.Response:
        body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **more}
        return self.http.post("/v1/batches", json=body, headers=KEY)

    def submit(self, content: bytes, **more: Any) -> str:
        answer = self.create(self.upload(content), **more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def poll(self, batch_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/batches/{batch_id}", headers=KEY)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def run(self, content: bytes, **more: Any) -> dict[str, Any]:
        """Submit, and poll to the end."""
        batch_id = self.submit(content, **more)
        batch = self.poll(batch_id)
        while batch["status"] in ("validating", "in_progress", "finalizing"):
            batch = self.poll(batch_id)
        return batch

    def listed(self, **query: Any) -> dict[str, Any]:
        answer = self.http.get("/v1/batches", params=query, headers=KEY)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def cancel(self, batch_id: str) -> httpx.Response:
        return self.http.post(f"/v1/batches/{batch_id}/cancel", headers=KEY)

    def content(self, file_id: str) -> bytes:
        answer = self.http.get(f"/v1/files/{file_id}/content", headers=KEY)
        assert answer.status_code == 200, answer.text
        return answer.content

    def output(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        return rows(self.content(batch["output_file_id"])) if batch["output_file_id"] else []

    def errors(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        return rows(self.content(batch["error_file_id"])) if batch["error_file_id"] else []

    def chat(self, **more: Any) -> httpx.Response:
        return self.http.post(CHAT, json=a_chat(**more), headers=KEY)


class InProcess(Wire):
    """A simulator without a server, on a clock of the test's."""

    def __init__(self, clock: Clock, *, faults: str = "", **fields: Any) -> None:
        fields = {"patience_seconds": 30.0, **fields}
        app = build_app(SimulatorSettings(faults=parse_faults(faults), **fields), clock)
        super().__init__(TestClient(app))  # type: ignore[arg-type]  # its httpx2 is httpx by another name
        self.engine: Engine = app.state.engine

    @property
    def ledger(self) -> Any:
        return self.engine.ledger
