"""The bucket policies: complete, named in the guide, and never wider than what a worker does."""

import json
from pathlib import Path

import pytest
import yaml

from pipeline.storage import keys
from tests.infra.deployed import INFRA

POLICIES = sorted((INFRA / "policies").iterdir())
GUIDE = (INFRA.parent / "docs" / "guides" / "object-stores.md").read_text(encoding="utf-8")


def _statements(name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((INFRA / "policies" / name).read_text(encoding="utf-8"))["Statement"]
    return found


def _actions(name: str) -> set[str]:
    listed = [each["Action"] for each in _statements(name)]
    return {action for each in listed for action in ([each] if isinstance(each, str) else each)}  # type: ignore[attr-defined] # JSON


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.name)
def test_every_policy_can_be_read_and_the_guide_names_it(policy: Path) -> None:
    assert yaml.safe_load(policy.read_text(encoding="utf-8"))  # JSON is YAML too
    assert f"`{policy.name}`" in GUIDE


@pytest.mark.parametrize("name", ["s3-worker-role.json", "s3-reader-role.json"])
def test_no_role_may_delete(name: str) -> None:
    assert {each["Effect"] for each in _statements(name)} == {"Allow"}
    assert not [action for action in _actions(name) if "Delete" in action or "*" in action]


def test_the_role_on_gcs_may_neither_delete_nor_overwrite() -> None:
    role = yaml.safe_load((INFRA / "policies" / "gcs-worker-role.yaml").read_text(encoding="utf-8"))
    assert set(role["includedPermissions"]) == {f"storage.objects.{verb}" for verb in ("create", "get", "list")}


def test_the_bucket_guards_the_log_and_the_leases_against_everybody() -> None:
    guarded = [f"arn:aws:s3:::BUCKET/PREFIX/{folder}/*" for folder in (keys.LOG, "leases")]
    for each in _statements("s3-bucket.json"):
        assert (each["Effect"], each["Principal"], each["Resource"]) == ("Deny", "*", guarded)
    assert {"s3:DeleteObject", "s3:PutObject"} <= _actions("s3-bucket.json")


def test_only_caches_are_ever_deleted_by_the_clock() -> None:
    s3 = json.loads((INFRA / "policies" / "s3-lifecycle.json").read_text(encoding="utf-8"))["Rules"]
    gcs = json.loads((INFRA / "policies" / "gcs-lifecycle.json").read_text(encoding="utf-8"))["lifecycle"]["rule"]
    caches = {f"PREFIX/{folder}/" for folder in keys.CACHES}
    assert {rule["Filter"]["Prefix"] for rule in s3 if "Expiration" in rule} == caches
    assert {prefix for rule in gcs for prefix in rule["condition"]["matchesPrefix"]} == caches
