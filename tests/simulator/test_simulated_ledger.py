"""The ledger tells what was billed, once for each execution, in process, over HTTP and on disk."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

from pipeline.ids import digest
from pipeline.simulator.ledger import Billed, Ledger
from tests.simulator.openai_wire import KEY, InProcess, a_chat, a_line, a_prompt, jsonl, rows, some_lines

Simulated = Callable[..., InProcess]


def a_bill(custom_id: str, *, delivered: bool = True) -> Billed:
    return Billed(
        at=0.0,
        wire="openai",
        batch_id="batch_1",
        custom_id=custom_id,
        model="m",
        first=None,
        second=None,
        outcome=None,
        input_tokens=3,
        output_tokens=2,
        delivered=delivered,
    )


def test_what_is_billed_is_what_was_executed(simulated: Simulated) -> None:
    wire = simulated(faults="line.500=0.2,output.missing=0.2,expire.share=0.2")
    batch = wire.run(some_lines(10))
    billed = list(wire.ledger.billed())
    totals = wire.ledger.totals
    assert len(billed) == totals.requests == batch["request_counts"]["completed"] == 6
    assert sum(entry.input_tokens for entry in billed) == totals.input_tokens == batch["usage"]["input_tokens"]
    assert sum(entry.output_tokens for entry in billed) == totals.output_tokens == batch["usage"]["output_tokens"]
    assert {entry.batch_id for entry in billed} == {batch["id"]}
    assert set(wire.ledger.times_billed().values()) == {1}


def test_a_bill_names_the_texts_and_the_winner(simulated: Simulated) -> None:
    wire = simulated(qualities={"good": 900.0, "bad": 0.0})
    wire.run(jsonl(a_line("r0", a_chat(a_prompt("bad", "good")))))
    (entry,) = wire.ledger.billed()
    assert (entry.custom_id, entry.model, entry.outcome) == ("r0", "gpt-6-luna", "second")
    assert (entry.first, entry.second) == (digest(b"bad"), digest(b"good"))


def test_running_the_same_requests_again_is_billed_again_with_the_same_verdicts(simulated: Simulated) -> None:
    wire = simulated()
    outputs = [wire.output(wire.run(some_lines(10))) for _ in range(2)]
    said = [
        {row["custom_id"]: row["response"]["body"]["choices"][0]["message"] for row in output} for output in outputs
    ]
    assert said[0] == said[1]
    assert wire.ledger.totals.requests == 20
    assert set(wire.ledger.times_billed().values()) == {2}
    assert sorted(wire.ledger.paid_twice()) == sorted(said[0])


def test_paying_again_is_right_only_where_no_answer_was_delivered(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for entry in (a_bill("a", delivered=False), a_bill("a"), a_bill("b"), a_bill("b"), a_bill("b"), a_bill("c")):
        ledger.record(entry)
    assert ledger.paid_twice() == ["b"]
    assert ledger.times_billed() == Counter(a=2, b=3, c=1)
    ledger.close()


def test_everything_done_to_batches_and_files_is_noted(simulated: Simulated) -> None:
    wire = simulated()
    file_id = wire.upload(some_lines(2), "mine.jsonl")
    batch_id = wire.create(file_id, metadata={"key": "k"}).json()["id"]
    batch = wire.poll(batch_id)
    size = len(wire.content(batch["output_file_id"]))
    wire.http.delete(f"/v1/files/{file_id}", headers=KEY)
    wire.cancel(batch_id)
    ledger = wire.ledger
    (create,) = ledger.creates
    assert (create.outcome, create.status, create.batch_id, create.fault) == ("applied", 200, batch_id, None)
    assert (create.input_file_id, create.metadata, create.wire) == (file_id, {"key": "k"}, "openai")
    assert [(made.batch_id, made.metadata) for made in ledger.batches] == [(batch_id, {"key": "k"})]
    assert [(end.batch_id, end.status, end.total, end.completed) for end in ledger.ended] == [
        (batch_id, "completed", 2, 2)
    ]
    assert [(touched.file_id, touched.action, touched.bytes) for touched in ledger.files] == [
        (file_id, "uploaded", len(some_lines(2))),
        (batch["output_file_id"], "written", size),
        (batch["output_file_id"], "downloaded", size),
        (file_id, "deleted", 0),
    ]
    assert ledger.files[0].filename == "mine.jsonl"
    assert [cancel.outcome for cancel in ledger.cancels] == ["refused"]


def test_keys_are_told_apart_without_being_told(simulated: Simulated) -> None:
    wire = simulated()
    for key in ("sk-one", "sk-two", "sk-one"):
        wire.http.post("/v1/batches", json={}, headers={"authorization": f"Bearer {key}"})
    accounts = [create.account for create in wire.ledger.creates]
    assert accounts[0] == accounts[2] != accounts[1]
    assert "sk-" not in wire.http.get("/simulator/ledger").text


def test_the_ledger_is_read_over_http(simulated: Simulated) -> None:
    wire = simulated()
    wire.run(some_lines(3))
    wire.chat()
    told = wire.http.get("/simulator/ledger").json()
    assert set(told) == {"totals", "creates", "batches", "ended", "files", "cancels", "billed"}
    assert told["totals"]["requests"] == len(told["billed"]) == 4
    assert told["totals"]["live"] == sum(entry["batch_id"] is None for entry in told["billed"]) == 1
    assert "billed" not in wire.http.get("/simulator/ledger", params={"billed": "no"}).json()


def test_an_untouched_ledger_is_read_over_http_too(simulated: Simulated) -> None:
    assert simulated().http.get("/simulator/ledger").json()["billed"] == []


def test_the_ledger_is_kept_on_disk_entry_by_entry(simulated: Simulated, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    wire = simulated(ledger_path=str(path))
    wire.run(some_lines(3))
    kinds = Counter(entry["type"] for entry in rows(path.read_bytes()))
    assert kinds == {"file": 2, "batch": 1, "create": 1, "billed": 3, "ended": 1}


def test_a_ledger_on_disk_is_continued_and_only_its_own_part_is_read(simulated: Simulated, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for _ in range(2):
        wire = simulated(ledger_path=str(path))
        wire.run(some_lines(3))
        assert len(list(wire.ledger.billed())) == 3
    assert sum(json.loads(line)["type"] == "billed" for line in path.read_text().splitlines()) == 6


def test_the_hidden_order_is_recovered_from_the_bills(simulated: Simulated) -> None:
    qualities = {f"Essay number {number} of this study.": float(number) for number in range(6)}
    wire = simulated(qualities=qualities, sharpness=3.0)
    pairs = list(permutations(qualities, 2))
    lines = (a_line(f"p{at}", a_chat(a_prompt(first, second))) for at, (first, second) in enumerate(pairs))
    wire.run(jsonl(*lines))
    wins: Counter[str] = Counter({digest(text.encode()): 0 for text in qualities})
    for entry in wire.ledger.billed():
        wins[entry.first if entry.outcome == "first" else entry.second] += 1
    assert sorted(wins, key=lambda name: wins[name]) == [digest(text.encode()) for text in qualities]
