"""The errors of the library, named after what the caller should do.

PipelineError
    ConfigError             fix the file, the call or the settings; never retried
    UnrankableError         the rows give no ranking: wait for more of them, or ask for something else
    StoreError
        ConflictError       someone wrote first: read again, decide again
        LeaseLostError      another worker has taken over: leave it to that one
        MissingError        there is no such object
        CorruptObjectError  stored bytes are not what they must be: stop and look
    ProviderError
        UnavailableError    nothing happened: try again later
            UnreachableError    nobody was there to answer: others will not find anybody either
        RejectedError       the same bytes will be refused again
        AccountError        the account must be mended (key, credit, quota); burns no send
        OutcomeUnknownError sent, no answer: look before sending again
"""


class PipelineError(Exception):
    """Anything the library reports on purpose; its text is meant for a person."""


class ConfigError(PipelineError):
    """The file, the call or the settings are wrong; nothing was written or sent."""


class UnrankableError(PipelineError):
    """There is no ranking, for the reason that the text gives."""


class StoreError(PipelineError):
    """The store could not do what was asked."""


class ConflictError(StoreError):
    """The key is taken: someone wrote first."""


class LeaseLostError(StoreError):
    """Another worker has taken the run over; what this one decides would change nothing."""


class MissingError(StoreError):
    """There is no object under this key."""


class CorruptObjectError(StoreError):
    """Stored bytes do not decode, or are not the bytes that were recorded."""


class ProviderError(PipelineError):
    """A provider answered with something other than success."""


class UnavailableError(ProviderError):
    """Nothing happened at the provider; the same call may be made again after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreachableError(UnavailableError):
    """No connection was made: whatever else is asked of the provider now would meet the same."""


class RejectedError(ProviderError):
    """The provider refused these bytes and would refuse them again."""

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_of_another_place(self) -> bool:
        """Whether the answer comes from a place that is not the provider's: a person must mend the address or model."""
        return self.status in {404, 405} or (self.status is not None and 300 <= self.status < 400)


class AccountError(ProviderError):
    """The account, not the request, is at fault: a wrong key, no credit, a full queue.

    `mendable_by_waiting` tells a full queue from a key that a person must replace.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retry_after: float | None = None,
        mendable_by_waiting: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.mendable_by_waiting = mendable_by_waiting


class OutcomeUnknownError(ProviderError):
    """The call may or may not have happened: look before sending again."""
