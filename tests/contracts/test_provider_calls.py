"""What every provider's calls do on a simulator: create, find, poll, fetch and tidy, also where they fail."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import msgspec
import pytest

from pipeline import providers
from pipeline.errors import AccountError, OutcomeUnknownError, ProviderError, RejectedError, UnavailableError
from pipeline.providers import LiveAnswer, ProbableProvider, RemoteBatch, Sought
from pipeline.settings import Settings
from tests.contracts.trials import ADAPTERS, BATCH, CANARY, EXACT, LIVE, Trial, a_judge, a_prompt, a_submission, filled

FAILED_CREATES: dict[str, type[ProviderError]] = {
    "429:7": UnavailableError, "401": AccountError, "403": AccountError, "quota": AccountError, "404": RejectedError,
    "413": RejectedError, "408": OutcomeUnknownError, "409": OutcomeUnknownError, "500": OutcomeUnknownError,
    "503": OutcomeUnknownError, "dropped": OutcomeUnknownError, "reset": OutcomeUnknownError,
}  # fmt: skip


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
        found = trial.provider.find(Sought(batch_key=submission.batch_key, since=since))
        assert [trial.ended(batch.remote_id).end for batch in found] == ["completed"], effect
        assert len(trial.simulator.ledger.creates) == number + 1
    assert trial.provider.find(Sought(batch_key="pl-ffffffffffffffffffffffffffffffff", since=since)) == []


@pytest.mark.parametrize("name", EXACT)
def test_a_batch_is_found_among_many(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    keys = [f"pl-{number:032x}" for number in range(4)]
    made = {key: trial.submit(a_submission(name, requests=1, first=at, key=key)) for at, key in enumerate(keys)}
    for key, remote_id in made.items():
        found = trial.provider.find(Sought(batch_key=key, since=datetime.now(UTC)))
        assert [batch.remote_id for batch in found] == [remote_id]


def listed(trial: Trial) -> list[RemoteBatch]:
    """What is found of an attempt of five requests, by its key or, where there is none, by its size."""
    since = datetime.now(UTC)
    if isinstance(trial.provider, ProbableProvider):
        return trial.provider.candidates(since=since, requests=5)
    return trial.provider.find(Sought(batch_key=a_submission(trial.name).batch_key, since=since))


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
        assert CANARY not in repr(providers.live_module(name).live_call(Settings(trial.environment), a_judge(name)))


@pytest.mark.parametrize("name", LIVE)
def test_a_live_call_is_answered_like_a_batch_line(name: str, tried: Callable[..., Trial]) -> None:
    trial, module = tried(name), providers.live_module(name)
    judge = a_judge(name, mode="live")
    call = module.live_call(Settings(trial.environment), judge)
    body = filled(module.live_frame(judge, schema=None), request_id="", prompt=a_prompt(1))
    answer = httpx.post(call.url, content=body, headers={**call.headers, "content-type": "application/json"})
    live = LiveAnswer(request_id="r-9", status=answer.status_code, body=msgspec.Raw(answer.content))
    output = module.decode_live(msgspec.json.encode(live))
    assert (output.request_id, output.status) == ("r-9", "answered"), output
    assert "<BETTER_SAMPLE>SAMPLE_" in (output.content or "")
    assert output.tokens.input == trial.simulator.ledger.totals.input_tokens
    assert output.tokens.output == trial.simulator.ledger.totals.output_tokens
