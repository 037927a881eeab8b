"""Processes of a test that are to hear signals, whatever whoever started the tests ignores."""

import signal


def listening() -> None:
    """Hear both signals: background jobs ignore the one, and Dagster, where it was imported, then the other as well."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
