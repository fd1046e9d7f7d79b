"""Passwords, tokens and signatures of locations are in no message, log or explanation; locations still work."""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

import formatkit
from formatkit.errors import CorruptFileError, StorageError, without_secrets
from formatkit.io import open_source
from formatkit.write.commit.cleanup import UncommittedFiles
from support.odd_streams import OddFileIO, OddInput, Silence

SECRET = "hunter2SECRETvalue"

LOCATIONS = [
    f"https://user:{SECRET}@host/x.parquet",
    f"https://{SECRET}@host/x.parquet",
    f"https://host/x.parquet?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}&X-Amz-Expires=60",
    f"https://host/x.parquet?sv=2022&sig={SECRET}",
    f"https://host/x.parquet?anything={SECRET}",
    f"https://host/x.parquet#access_token={SECRET}",
    f"s3://AKIAKEY:{SECRET}@bucket/x.parquet",
    f"s3://AKIAKEY:{SECRET[:9]}/{SECRET}@bucket/x.parquet",
    f"abfss://container@account.dfs.core.windows.net/x.parquet?sv=1&sig={SECRET}",
    f"postgresql://me:{SECRET}@db/iceberg",
]


@pytest.mark.parametrize("location", LOCATIONS)
def test_secrets_of_locations_are_not_shown(location: str) -> None:
    shown = without_secrets(f"cannot read {location}: no")
    assert SECRET not in shown
    assert shown.startswith(f"cannot read {location.partition('://')[0]}://")
    assert shown.endswith(": no")


@pytest.mark.parametrize(
    "text",
    [
        f"{{'s3.secret-access-key': '{SECRET}', 'a': 1}}",
        f'{{"adls.account-key": "{SECRET}"}}',
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET};EndpointSuffix=x",
        f"Max retries exceeded with url: /x.parquet?sv=1&sig={SECRET} (Caused by …)",
        f"Authorization: Bearer {SECRET}",
        f"s3.session-token={SECRET}",
        f"client_secret={SECRET}&x=1",
        f"password: {SECRET}",
        f"Driver=x;UID=me;PWD={SECRET};Port=1",
        f"gcs.oauth2.token={SECRET}",
        f"hf.token: {SECRET}",
        f"x-amz-security-token: {SECRET}",
        f"{{'uri': 'x', 'token': '{SECRET}'}}",
        f"{{'authorization': 'bearer {SECRET}'}}",
    ],
)
def test_secrets_in_the_words_of_libraries_are_not_shown(text: str) -> None:
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "/data/a?b=c#d.parquet",
        "s3://bucket/year=2024/month=1/x.parquet",
        "abfss://container@account.dfs.core.windows.net/x.parquet",
        "hdfs://name-node:8020/x.parquet",
        "https://host:8080/x.parquet",
        "no column 'token'; the schema has: key, secret_santa",
        "unexpected token: ')' at 7",
        "s3://bucket/token=5/x.parquet",
        "AuthorizationExpiredError: it expired; basic settings",
        "2024:report.parquet is no file; a@b",
        "file:///data/me@here/x.parquet",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_an_error_hides_secrets_of_its_location_and_of_its_cause(tmp_path: Path) -> None:
    location = f"odd://me:{SECRET}@x/data.bin"

    def fail(*_: object) -> bytes:
        raise OSError(f"HTTPSConnectionPool: https://x/data.bin?sig={SECRET} failed")

    (tmp_path / "data.bin").write_bytes(b"123")
    with pytest.raises(StorageError, match="HTTPSConnectionPool") as caught:
        open_source(OddInput(tmp_path / "data.bin", fail, location=location)).read(0, 3)
    again = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, again):
        assert SECRET not in "".join([str(error), repr(error), *traceback.format_exception(error)])
        # What the program needs to go on.
        assert vars(error)["location"] == location


def test_damaged_files_are_named_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(b"PAR1 this is none PAR1")
    location = f"odd://x/data.parquet?sig={SECRET}"
    with pytest.raises(CorruptFileError, match=r"odd://x/data\.parquet\?\*\*\*") as caught:
        formatkit.read_file(OddInput(tmp_path / "data.parquet", location=location), file_format="parquet").to_arrow()
    assert SECRET not in str(caught.value)


def test_explanations_name_files_without_secrets(tmp_path: Path) -> None:
    formatkit.write_file(tmp_path / "data.parquet", pa.table({"n": range(10)}))
    location = f"odd://x/data.parquet?sig={SECRET}"
    scan = formatkit.read_file(OddInput(tmp_path / "data.parquet", location=location), file_format="parquet")
    assert SECRET not in str(scan.explain(analyze=True))


def test_logs_name_files_without_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), UncommittedFiles(OddFileIO(tmp_path, Silence())) as files:
        (tmp_path / "folder").mkdir()
        files.add(f"odd://me:{SECRET}@x/folder")
    assert "cannot delete" in caplog.text
    assert SECRET not in caplog.text


def test_locations_with_secrets_are_still_used_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a?sig=b.parquet"
    formatkit.write_file(path, pa.table({"n": [1]}))
    assert formatkit.read_file(PyArrowFileIO().new_input(str(path))).count() == 1


@pytest.mark.parametrize(
    "part", ["a://", "a.", "secret", "?", "a://x:", "token=", "http://x@", "&a", "a:b@c ", "a://??"]
)
def test_long_messages_take_no_time(part: str) -> None:
    text = part * (1_000_000 // len(part))
    began = time.monotonic()
    without_secrets(text)
    assert time.monotonic() - began < 5
