"""What can be made to go wrong, and how often.

A fault has a name, often a number, and may be limited to the next few occurrences. On a command line faults are written
`name[:value][=number][*times]`, separated by commas:

    create.lost=1,create.429:7=2,expire.share=0.1,output.damaged=0.05*1

**Calls** (`create`, `upload`, `poll`, `list`, `cancel`, `download`, `delete`, `live`), `=number` says how many times:

    <call>.dropped  .reset       connection closed, or reset, before anything happened
    <call>.lost                  done, then the connection is closed without an answer
    <call>.html                  done, then answered 200 with a page of HTML
    <call>.message  <call>.empty     done, then answered 200 with JSON that holds nothing but a message, or with nothing
    <call>.401 .403 .404 .408 .409 .413 .500 .502 .503 .504     refused with this status, nothing done
    <call>.408_applied .500_applied .502_applied .503_applied .504_applied     done, then answered with this status
    <call>.429  .429_date        refused with `retry-after` in seconds (`:value`, 1 unless given), as number or date
    <call>.quota                 refused because there is no money left
    create.no_id  create.unknown_status     done, but the answer lacks the id or has a new status word
    create.late:SECONDS          connection closed at once, done only that much later
    list.lag:SECONDS             batches are listed only that long after they were created
    download.cut                 the connection is closed in the middle of the file

**Batches**, decided once a batch, `=number` says how many batches:

    run.token_limit              fails: too many tokens are enqueued
    run.server_error             fails: the provider blames itself
    run.stuck                    never gets beyond `in_progress`
    expire.share=S  cancel.share=S     the batch expires (or, once cancelled, ends) with this share left unanswered
    output.shuffle               order is not kept even if the settings say so
    output.crlf  output.bom  output.blank  output.no_newline    odd but harmless line ends
    output.absent  output.empty_error_id     ended without an output file; error file id "" in place of null

**Lines**, a share of the answered requests of a batch (all without a number), `*times` says how many batches:

    line.400  line.429  line.500     the request failed, nothing is billed
    answer.refusal  answer.length  answer.filter  answer.failed    stopped for that reason
    answer.unparseable  answer.both  answer.u2028  answer.fenced   answered in a way that tries the parser
    answer.long  answer.empty    answered behind eight kilobytes of prose; with no word at all
    output.missing  output.damaged  output.bad_utf8     billed, but the line is absent, cut, or not UTF-8
    output.doubled  output.differing  output.foreign    the line comes twice, with another answer, with a stranger's

Where several line faults are active they hit different lines. `answer.…` faults hit live calls too.
"""

import re
import threading
from collections.abc import Mapping

import msgspec

from pipeline.errors import ConfigError
from pipeline.wording import nearest

CALLS = ("create", "upload", "poll", "list", "cancel", "download", "delete", "live")
REFUSALS = ("401", "403", "404", "408", "409", "413", "429", "429_date", "quota", "500", "502", "503", "504")
APPLIED = ("408_applied", "500_applied", "502_applied", "503_applied", "504_applied")
REPLACED = ("html", "message", "empty")
EFFECTS = ("dropped", "reset", "lost", *REPLACED, *REFUSALS, *APPLIED)
LINE_FAULTS = (
    "line.400", "line.429", "line.500",
    "answer.refusal", "answer.length", "answer.filter", "answer.failed",
    "answer.unparseable", "answer.both", "answer.u2028", "answer.fenced", "answer.long", "answer.empty",
    "output.missing", "output.damaged", "output.bad_utf8", "output.doubled", "output.differing", "output.foreign",
)  # fmt: skip
_SHARES = frozenset(("expire.share", "cancel.share", *LINE_FAULTS))
_CALL_FAULTS = frozenset(
    (
        *(f"{call}.{effect}" for call in CALLS for effect in EFFECTS),
        "create.no_id", "create.unknown_status", "create.late",
    )
)  # fmt: skip
_COUNTED = _CALL_FAULTS | frozenset(
    (
        "list.lag", "download.cut", "run.token_limit", "run.server_error", "run.stuck",
        "output.shuffle", "output.crlf", "output.bom", "output.blank", "output.no_newline", "output.absent",
        "output.empty_error_id",
    )
)  # fmt: skip
NAMES = _SHARES | _COUNTED
_SPELLING = re.compile(r"([a-z_]+\.[a-z0-9_]+)(?::([0-9.]+))?(?:=([0-9.]+))?(?:\*([0-9]+))?")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong: `times` more times, or always; `value` is a share or seconds."""

    value: float | None = None
    times: int | None = None

    def number(self, default: float) -> float:
        """Return the value, or what it is unless given."""
        return default if self.value is None else self.value


def parse_faults(text: str) -> dict[str, Fault]:
    """Return the faults a command line names."""
    return dict(_parse_one(part.strip()) for part in text.split(",") if part.strip())


def _parse_one(part: str) -> tuple[str, Fault]:
    spelled = _SPELLING.fullmatch(part)
    if spelled is None and (name := re.split("[:=*]", part)[0]) not in NAMES:
        raise ConfigError(f"there is no fault {name!r}; {_near(name)}")
    if spelled is None:
        raise ConfigError(f"fault {part!r} is not spelled name[:value][=number][*times]; example: create.lost=1")
    name, value, number, times = spelled.groups()
    try:
        if number is not None and name in _SHARES:
            value = number
        elif number is not None:
            times = number
        fault = Fault(value=None if value is None else float(value), times=None if times is None else int(times))
    except ValueError as error:
        raise ConfigError(f"fault {part!r} has a number that cannot be read; example: create.lost=1") from error
    return name, checked(name, fault)


def checked(name: str, fault: Fault) -> Fault:
    """Return the fault if there is one of that name and its numbers make sense."""
    if name not in NAMES:
        raise ConfigError(f"there is no fault {name!r}; {_near(name)}")
    if name in _SHARES and not 0 <= fault.number(1) <= 1:
        raise ConfigError(f"fault {name!r} takes a share between 0 and 1, not {fault.value}")
    return fault


def _near(name: str) -> str:
    """Return the nearest names: those that end so, else the one that is spelled alike, else where all are listed."""
    alike = sorted(known for known in NAMES if known.rpartition(".")[2] == name or known.partition(".")[0] == name)
    if alike:
        return f"did you mean {' or '.join(alike[:3])}?"
    near = nearest(name, sorted(NAMES))
    return f"did you mean {near}?" if near else "`pairlog simulate --faults help` lists them"


def listed() -> str:
    """Return what can go wrong, as this module's own text says it."""
    return str(__doc__)


def faults_from_json(body: bytes) -> dict[str, Fault]:
    """Return the faults of a JSON document.

    It is either the spelling of the command line as a string, or an object from name to `{"value": …, "times": …}`,
    to a number (read as the command line reads it) or to true.
    """
    try:
        given = msgspec.json.decode(body, type=str | dict[str, bool | float | Fault])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"faults cannot be read: {error}") from error
    if isinstance(given, str):
        return parse_faults(given)
    return {name: _from_value(name, value) for name, value in given.items() if value is not False}


def _from_value(name: str, value: bool | float | Fault) -> Fault:  # noqa: FBT001 - JSON decides which it is
    if isinstance(value, Fault):
        return checked(name, value)
    if value is True:
        return checked(name, Fault())
    if name in _SHARES:
        return checked(name, Fault(value=value))
    return checked(name, Fault(times=int(value)))


class Faults:
    """The faults that are still to come; safe to use from several threads."""

    def __init__(self, given: Mapping[str, Fault]) -> None:
        self._lock = threading.Lock()
        self._left = {name: checked(name, fault) for name, fault in given.items()}

    def replace(self, given: Mapping[str, Fault]) -> None:
        """Forget what was to come and take these faults."""
        left = {name: checked(name, fault) for name, fault in given.items()}
        with self._lock:
            self._left = left

    def left(self) -> dict[str, Fault]:
        """Return what is still to come."""
        with self._lock:
            return dict(self._left)

    def take(self, name: str) -> Fault | None:
        """Return the fault if it strikes now, and count that it did."""
        with self._lock:
            fault = self._left.get(name)
            if fault is None or fault.times == 0:
                return None
            if fault.times is not None:
                self._left[name] = msgspec.structs.replace(fault, times=fault.times - 1)
            return fault

    def take_call(self, call: str) -> "CallFault | None":
        """Return what strikes this call, if anything: one fault a call, in the order they were given."""
        for name in self.left():
            struck, _, effect = name.partition(".")
            fault = self.take(name) if struck == call and name in _CALL_FAULTS else None
            if fault is not None:
                return CallFault(effect=effect, value=fault.value)
        return None


class CallFault(msgspec.Struct, frozen=True, kw_only=True):
    """What strikes one call."""

    effect: str
    value: float | None = None

    @property
    def is_applied(self) -> bool:
        """Whether the call is carried out all the same."""
        return self.effect in ("lost", "no_id", "unknown_status", "late", *REPLACED, *APPLIED)

    @property
    def status(self) -> int:
        """The HTTP status it is answered with; 0 if the connection is closed without an answer."""
        if self.effect in ("dropped", "reset", "lost", "late"):
            return 0
        if self.effect in ("no_id", "unknown_status", *REPLACED):
            return 200
        return 429 if self.effect == "quota" else int(self.effect[:3])
