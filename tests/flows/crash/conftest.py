"""Object stores for the crash matrix: the servers of the storage tests."""

from tests.storage.conftest import gcs_server, s3_client, s3_server

__all__ = ["gcs_server", "s3_client", "s3_server"]
