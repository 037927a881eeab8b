"""What every provider must do, whatever its wire: one suite, run on every module that is found in `pipeline.providers`.

A new provider adds a row to `ADAPTERS` in `trials` (how a worker is pointed at the simulator, and a model it knows) and
its recorded answers to `tests/golden/<name>/`: `line.*.json` holds a result line and the output it means, `live.*.json`
the same of a live answer, `batch.*.json` an answer about a batch and what it means.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials import (
    ADAPTERS,
    BATCH,
    CANARY,
    EXACT,
    GOLDEN,
    LIVE,
    SCHEMA,
    Trial,
    a_judge,
    a_prompt,
    a_submission,
    filled,
    golden,
    texts_of,
)

from pipeline import providers
from pipeline.clock import FixedClock
from pipeline.domain import Output
from pipeline.errors import (
    AccountError,
    ConfigError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
)
from pipeline.providers import (
    BatchModule,
    LiveAnswer,
    LiveModule,
    LiveOnlyModule,
    Particulars,
    ProbableProvider,
    RemoteBatch,
)
from pipeline.settings import Settings

FAILED_CREATES: dict[str, type[ProviderError]] = {
    "429:7": UnavailableError, "401": AccountError, "403": AccountError, "quota": AccountError, "404": RejectedError,
    "413": RejectedError, "408": OutcomeUnknownError, "409": OutcomeUnknownError, "500": OutcomeUnknownError,
    "503": OutcomeUnknownError, "dropped": OutcomeUnknownError, "reset": OutcomeUnknownError,
}  # fmt: skip
FIELDS = ["custom_id", "key", "result", "response", "request", "error", "status", "type"]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner)
)


def test_every_provider_is_tried_here() -> None:
    assert set(ADAPTERS) >= set(providers.names())


# Modules


@pytest.mark.parametrize("name", providers.names())
def test_a_module_has_what_its_modes_demand(name: str) -> None:
    module = providers.module(name)
    assert module.MODES, "one mode at least, the default first"
    assert isinstance(module, BatchModule) == ("batch" in module.MODES)
    assert isinstance(module, LiveModule) == ("live" in module.MODES)
    assert isinstance(module, LiveOnlyModule) == (module.MODES == ("live",))


def test_every_module_is_of_the_type_of_its_modes(tmp_path: Path) -> None:
    checked = tmp_path / "modules.py"
    lines = ["from pipeline import providers"]
    for name in providers.names():
        lines.append(f"from pipeline.providers import {name}")
        modes = providers.module(name).MODES
        lines += [f"{name}_{mode}: providers.{mode.capitalize()}Module = {name}" for mode in modes]
        lines += [f"{name}_only: providers.LiveOnlyModule = {name}"] if modes == ("live",) else []
        said = [field for field in Particulars.__struct_fields__ if hasattr(providers.module(name), field)]
        lines.append(f"providers.Particulars({', '.join(f'{field}={name}.{field}' for field in said)})")
    checked.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", checked]
    done = subprocess.run(command, cwd=Path(providers.__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", providers.names())
def test_a_mode_that_a_provider_has_not_is_named(name: str) -> None:
    modes = providers.module(name).MODES
    for mode, find in (("batch", providers.batch_module), ("live", providers.live_module)):
        if mode not in modes:
            with pytest.raises(ConfigError, match=f"{name} has no mode {mode}; it has {modes[0]}"):
                find(name)


# Recorded answers


@pytest.mark.parametrize("name", BATCH)
def test_the_id_of_a_recorded_line_stands_where_the_module_says(name: str) -> None:
    """A line that is not as we know it was paid for: whose it is can still be told."""
    found = 0
    for file in (GOLDEN / name).glob("line.*.json"):
        case = json.loads(file.read_text("utf-8"))
        value = case["line"]
        for member in providers.particulars(name).ID_PATH:
            value = value.get(member) if isinstance(value, dict) else None
        assert value in {case["output"]["request_id"], None}
        found += value is not None
    assert found >= len(list((GOLDEN / name).glob("line.*.json"))) - 1


@pytest.mark.parametrize(("name", "case"), golden("line"))
def test_a_recorded_line_means_this_output(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    assert providers.module(name).decode(line) == msgspec.convert(case["output"], Output)


@pytest.mark.parametrize("name", [name for name in BATCH if providers.particulars(name).decode_lines])
def test_recorded_lines_mean_together_what_they_mean_alone(name: str) -> None:
    cases = [json.loads(file.read_text("utf-8"))["line"] for file in sorted((GOLDEN / name).glob("line.*.json"))]
    lines = [json.dumps(line, ensure_ascii=False).encode() for line in cases]
    decode_lines = providers.particulars(name).decode_lines
    assert decode_lines is not None
    assert decode_lines(b"\n".join(lines) + b"\n") == [providers.module(name).decode(line) for line in lines]
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decode_lines(b"\n".join([*lines, lines[0][:-1]]))


@pytest.mark.parametrize(("name", "case"), golden("live"))
def test_a_recorded_live_answer_means_this_output(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    assert providers.module(name).decode_live(line) == msgspec.convert(case["output"], Output)


@pytest.mark.parametrize(("name", "case"), golden("batch"))
def test_a_recorded_batch_means_this(name: str, case: dict[str, Any], clock: FixedClock) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=case["answer"]))
    provider = providers.module(name).build(Settings(ADAPTERS[name].offline), clock, transport=transport)
    with contextlib.closing(provider):
        assert provider.status(case["batch"]["remote_id"]) == msgspec.convert(case["batch"], RemoteBatch)


@pytest.mark.parametrize("name", BATCH)
def test_recorded_lines_cover_what_can_happen_to_a_request(name: str) -> None:
    cases = [json.loads(file.read_text("utf-8"))["output"] for file in (GOLDEN / name).glob("line.*.json")]
    assert {case["status"] for case in cases} >= {"answered", "truncated", "refused", "errored"}
    assert {case.get("again", False) for case in cases if case["status"] == "errored"} == {True, False}


WANTS_MONEY = (
    "insufficient_quota", "payment_required", "billing_hard_limit_reached", "credit_limit", "Insufficient balance",
)  # fmt: skip


def with_words(value: Any, words: str, other: str) -> Any:
    """The same line in other words; what stands alone as an error that says nothing says them too."""
    if isinstance(value, dict):
        silent = value.get("error", "") is None and value.get("response") is None
        told = {key: with_words(inner, words, other) for key, inner in value.items()}
        return told | ({"error": {"code": other}} if silent else {})
    return other if value == words else value


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("words", WANTS_MONEY)
def test_a_line_that_failed_for_want_of_money_says_so_in_any_of_the_words(name: str, words: str) -> None:
    cases = [json.loads(file.read_text("utf-8")) for file in sorted((GOLDEN / name).glob("line.errored.*.json"))]
    decode = providers.module(name).decode
    altered = 0
    for case in cases:
        said = case["output"]["reason"]
        line = with_words(case["line"], said.partition(": ")[2] or said, words)
        altered += line != case["line"]
        assert decode(json.dumps(line).encode()).unpaid == (line != case["line"])
    assert altered, "no recorded line names its reason"


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"{", b"{}", b"[]", b"null", b'"text"', b"\xff\xfe{}", b"NaN", b'{"custom_id":NaN}', b"\x00",
        b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_line_is_refused(name: str, damaged: bytes) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError, RecursionError)):
        providers.module(name).decode(damaged)


@pytest.mark.parametrize(("name", "case"), golden("line"))
def test_a_line_cut_anywhere_is_refused(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    for length in range(0, len(line) - 1, 7):
        with pytest.raises((ValueError, msgspec.DecodeError)):
            providers.module(name).decode(line[:length])


@pytest.mark.parametrize("name", BATCH)
@settings(max_examples=25)
@given(line=st.binary(max_size=200) | DOCUMENTS.map(lambda value: json.dumps(value).encode()))
def test_no_line_breaks_the_decoder(name: str, line: bytes) -> None:
    with contextlib.suppress(ValueError, msgspec.DecodeError):
        assert isinstance(providers.module(name).decode(line), Output)


# Requests


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("answer", ["tag", "json"])
def test_a_frame_has_one_gap_for_the_id_and_one_for_the_prompt(name: str, answer: str) -> None:
    judge = a_judge(name, answer=answer)
    frame = providers.module(name).frame(judge, schema=SCHEMA if answer == "json" else None)
    assert sorted(frame.slots) == ["prompt", "request_id"]
    prompt = 'A "quoted"\nprompt\u2028with {{placeholders}}'
    assert prompt in texts_of(json.loads(filled(frame, request_id="r-1", prompt=prompt)))


@pytest.mark.parametrize("name", LIVE)
def test_a_live_frame_has_one_gap_for_the_prompt(name: str) -> None:
    frame = providers.module(name).live_frame(a_judge(name, mode="live"), schema=None)
    assert list(frame.slots) == ["prompt"]


@pytest.mark.parametrize("name", BATCH)
def test_a_missing_key_is_named(name: str, clock: FixedClock) -> None:
    module = providers.module(name)
    with pytest.raises(ConfigError, match=module.KEYS[0]):
        module.build(Settings({}), clock, transport=None)


@pytest.mark.parametrize("name", BATCH)
def test_a_batch_comes_back_whole(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    submission = a_submission(name, requests=7)
    remote_id = trial.submit(submission)
    batch = trial.ended(remote_id)
    outputs = trial.outputs(batch)
    assert (batch.remote_id, batch.end) == (remote_id, "completed")
    assert set(outputs) == {f"r-{number:04}" for number in range(7)}
    assert {output.status for output in outputs.values()} == {"answered"}
    assert all("<BETTER_SAMPLE>SAMPLE_" in (output.content or "") for output in outputs.values())
    assert trial.simulator.ledger.totals.requests == 7
    assert len(trial.simulator.ledger.creates) == 1


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].structured])
def test_structured_answers_come_back_as_json(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    batch = trial.ended(trial.submit(a_submission(name, judge=a_judge(name, answer="json"))))
    answers = [json.loads(output.content or "") for output in trial.outputs(batch).values()]
    assert {answer["better"] for answer in answers} <= {"first", "second"}
    assert len(answers) == 5


@pytest.mark.parametrize("name", BATCH)
def test_tokens_are_what_was_billed_whatever_the_wire_calls_them(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    batch = trial.ended(trial.submit(a_submission(name)))
    tokens = [output.tokens for output in trial.outputs(batch).values()]
    totals = trial.simulator.ledger.totals
    assert sum(token.input or 0 for token in tokens) == totals.input_tokens
    assert sum(token.output or 0 for token in tokens) == totals.output_tokens
    assert all((token.reasoning or 0) <= (token.output or 0) for token in tokens)
    assert all((token.cached or 0) <= (token.input or 0) for token in tokens)


@pytest.mark.parametrize("name", EXACT)
def test_a_create_without_an_answer_is_unknown_and_found_again(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    since = datetime.now(UTC)
    for number, effect in enumerate(("lost", "504_applied", "html", "no_id")):
        submission = a_submission(name, first=10 * number, key=f"pl-{number:032x}")
        file_id = trial.provider.upload(submission)
        trial.make_fail(f"create.{effect}=1")
        with pytest.raises(OutcomeUnknownError):
            trial.provider.create(submission, file_id=file_id)
        found = trial.provider.find(submission.batch_key, since=since)
        assert [trial.ended(batch.remote_id).end for batch in found] == ["completed"], effect
        assert len(trial.simulator.ledger.creates) == number + 1
    assert trial.provider.find("pl-ffffffffffffffffffffffffffffffff", since=since) == []


@pytest.mark.parametrize("name", EXACT)
def test_a_batch_is_found_among_many(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    keys = [f"pl-{number:032x}" for number in range(4)]
    made = {key: trial.submit(a_submission(name, requests=1, first=at, key=key)) for at, key in enumerate(keys)}
    for key, remote_id in made.items():
        assert [batch.remote_id for batch in trial.provider.find(key, since=datetime.now(UTC))] == [remote_id]


def listed(trial: Trial) -> list[RemoteBatch]:
    """What is found of an attempt of five requests, by its key or, where there is none, by its size."""
    since = datetime.now(UTC)
    if isinstance(trial.provider, ProbableProvider):
        return trial.provider.candidates(since=since, requests=5)
    return trial.provider.find(a_submission(trial.name).batch_key, since=since)


@pytest.mark.parametrize("name", BATCH)
def test_an_answer_that_is_no_listing_proves_nothing(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    assert listed(trial) == []
    remote_id = trial.submit(a_submission(name))
    for effect in ("message", "empty", "html"):
        trial.make_fail(f"list.{effect}")
        with pytest.raises(UnavailableError):
            listed(trial)
    trial.make_fail("")
    assert [batch.remote_id for batch in listed(trial)] == [remote_id]


@pytest.mark.parametrize("name", BATCH)
def test_a_failed_create_says_what_may_have_happened(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    for number, (effect, error) in enumerate(FAILED_CREATES.items()):
        submission = a_submission(name, first=10 * number, key=f"pl-{number:032x}")
        file_id = trial.provider.upload(submission)
        trial.make_fail(f"create.{effect}=1")
        with pytest.raises(ProviderError) as raised:
            trial.provider.create(submission, file_id=file_id)
        assert type(raised.value) is error, effect
        assert len(trial.simulator.ledger.creates) == number + 1, effect
        assert CANARY not in f"{raised.value} {raised.value!r} {raised.value.__cause__!r}"


@pytest.mark.parametrize("name", BATCH)
def test_a_reading_call_is_repeated_while_nothing_happened(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    remote_id = trial.submit(a_submission(name))
    trial.make_fail("poll.503=2,poll.429:3=1,poll.reset=1")
    before = trial.clock.monotonic()
    assert trial.ended(remote_id).end == "completed"
    assert trial.clock.monotonic() > before


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].streams])
def test_a_download_that_breaks_off_is_told(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    batch = trial.ended(trial.submit(a_submission(name)))
    trial.make_fail("download.cut=1")
    with pytest.raises(UnavailableError):
        trial.fetched(batch)
    assert len(trial.fetched(batch)) == 5


@pytest.mark.parametrize("name", BATCH)
def test_an_unknown_batch_is_refused(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    remote_id = trial.submit(a_submission(name))
    with pytest.raises(RejectedError):
        trial.provider.status(remote_id[:-4] + "0000")


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].uploads])
def test_an_input_is_discarded_and_may_be_gone_already(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    file_id = trial.provider.upload(a_submission(name))
    assert file_id is not None
    trial.provider.discard(file_id)
    trial.provider.discard(file_id)
    assert [file.action for file in trial.simulator.ledger.files if file.action == "deleted"] == ["deleted"]


@pytest.mark.parametrize("name", [name for name in BATCH if not ADAPTERS[name].uploads])
def test_where_create_takes_the_lines_nothing_is_uploaded(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    assert trial.provider.upload(a_submission(name)) is None
    assert trial.simulator.ledger.files == []


@pytest.mark.parametrize("name", BATCH)
def test_an_upload_is_repeated_from_its_start(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, faults="upload.503=1,upload.reset=1")
    batch = trial.ended(trial.submit(a_submission(name)))
    assert len(trial.outputs(batch)) == 5


@pytest.mark.parametrize("name", BATCH)
def test_a_free_call_shows_that_all_is_well(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    assert trial.provider.check()
    assert trial.simulator.ledger.totals.requests == 0


@pytest.mark.parametrize("name", [name for name in BATCH if CANARY in ADAPTERS[name].offline.values()])
def test_a_wrong_key_is_an_account_fault(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, api_keys=("another-key",))
    with pytest.raises(AccountError) as raised:
        trial.provider.check()
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("name", BATCH)
def test_no_key_shows_in_what_a_provider_prints(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    shown = f"{trial.provider!r} {trial.provider} {trial.provider.account} {vars(trial.provider)}"
    assert CANARY not in shown
    if "live" in trial.module.MODES:
        assert CANARY not in repr(trial.module.live_call(Settings(trial.environment), a_judge(name)))


@pytest.mark.parametrize("name", LIVE)
def test_a_live_call_is_answered_like_a_batch_line(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    judge = a_judge(name, mode="live")
    call = trial.module.live_call(Settings(trial.environment), judge)
    body = filled(trial.module.live_frame(judge, schema=None), request_id="", prompt=a_prompt(1))
    answer = httpx.post(call.url, content=body, headers={**call.headers, "content-type": "application/json"})
    live = LiveAnswer(request_id="r-9", status=answer.status_code, body=msgspec.Raw(answer.content))
    output = trial.module.decode_live(msgspec.json.encode(live))
    assert (output.request_id, output.status) == ("r-9", "answered"), output
    assert "<BETTER_SAMPLE>SAMPLE_" in (output.content or "")
    assert output.tokens.input == trial.simulator.ledger.totals.input_tokens
    assert output.tokens.output == trial.simulator.ledger.totals.output_tokens


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize(
    ("status", "body", "again"),
    [
        (429, b'{"error":{"message":"slow down"}}', True),
        (503, b'{"error":{"message":"busy"}}', True),
        (500, b'"an oddity"', True),
        (408, b"null", True),
        (400, b'{"error":{"message":"no such field"}}', False),
        (404, b'{"error":{"message":"no such model"}}', False),
    ],
)
def test_a_refused_live_call_is_an_output_too(name: str, status: int, body: bytes, again: bool) -> None:
    line = msgspec.json.encode(LiveAnswer(request_id="r-9", status=status, body=msgspec.Raw(body)))
    output = providers.module(name).decode_live(line)
    assert (output.request_id, output.status, output.again) == ("r-9", "errored", again)
    assert output.reason
