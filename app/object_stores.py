"""Files at URLs, such as s3://bucket/log: how long a store is waited for, and what its errors mean.

Credentials, region and address are those of the URL, or of the usual variables of the store:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL; for gs://
GOOGLE_APPLICATION_CREDENTIALS.
"""

import os
import re
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.fs

TRIES: Final = 4
"""Of a request: with three seconds of silence each, a store that hangs costs a quarter minute."""

_GOOGLE_SECONDS: Final = 12
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://")
_SECRETS: Final = re.compile(r"(?<=://)(?:[^/?@:]*:[^?]*|[^/?@]*)@")
_PLAIN: Final = "/=:+,@"
_CODE: Final = re.compile(r"(?:AWS Error |cloud::Status\()(\w+(?: \(HTTP status 301\))?)")
_NOISE: Final = re.compile(r" \(Request ID: [^)]*\)|\. Detail: .*| error_info=.*")
_LOCAL: Final = "Detail: [errno"
_UNREACHED: Final = "NETWORK_CONNECTION"
_MEANINGS: Final = {
    "NO_SUCH_BUCKET": "there is no such bucket",
    "INVALID_ACCESS_KEY_ID": "the store does not know the access key; see AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is not that of the access key; see"
    " AWS_SECRET_ACCESS_KEY",
    "ACCESS_DENIED": "the credentials may not list or read this, or there are none; see"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "UNKNOWN (HTTP status 301)": "the bucket is in another region; see AWS_REGION",
    _UNREACHED: "the store cannot be reached; see AWS_ENDPOINT_URL and AWS_REGION",
    "NOT_FOUND": "there is no such bucket",
    "UNAVAILABLE": "the store cannot be reached, or has nobody's credentials; see"
    " GOOGLE_APPLICATION_CREDENTIALS",
    **dict.fromkeys(
        ("UNAUTHENTICATED", "PERMISSION_DENIED"),
        "the credentials may not list or read this, or there are none; see"
        " GOOGLE_APPLICATION_CREDENTIALS",
    ),
}


def is_url(where: object) -> bool:
    """Whether it is a URL, and not a path of this machine."""
    return _URL.match(str(where)) is not None


def without_secrets(url: str) -> str:
    """The URL without user, password and options, also where a `/` of the password is not written
    as %2F and ends the host for who reads it."""
    return _SECRETS.sub("", url).partition("?")[0]


def located(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it without a `/` at its end.

    Raises OSError, whose text has no secrets of the URL, where nothing can be made of it or the
    region of its bucket is not to be found.
    """
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        said = str(error).partition("\n")[0].replace(url, without_secrets(url))
        hint = ": write / in a key as %2F, and other signs likewise" if "syntax" in said else ""
        raise OSError(said + hint) from None
    return _impatient(filesystem), str(path).rstrip("/")


def _impatient(filesystem: Any) -> Any:
    """The same with few tries: of a URL pyarrow makes one with thirty, 100 seconds of silence, and
    for Google's store one that tries for a quarter of an hour."""
    if isinstance(filesystem, pyarrow.fs.GcsFileSystem):
        rebuilt, (options,) = filesystem.__reduce__()[:2]
        if options["retry_time_limit"] is None:
            options["retry_time_limit"] = timedelta(seconds=_GOOGLE_SECONDS)
        return rebuilt(options)
    if not isinstance(filesystem, pyarrow.fs.S3FileSystem):
        return filesystem
    options = filesystem.__reduce__()[1][0]
    strategy = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=TRIES)
    return pyarrow.fs.S3FileSystem(**options, retry_strategy=strategy)


def url_of(url: str, path: str) -> str:
    """The URL of a file by its path, with the credentials and options of the URL of its log."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{user}{at}{quoted(path)}{query}"


def quoted(path: str) -> str:
    """A path as it stands in a URL: folders may be called as in `hour=2026-01-01 00%3A00`."""
    return quote(path, safe=_PLAIN)


def info_of(filesystem: Any, path: str) -> Any:
    """What is at the path. Raises OSError, also where there is no such bucket.

    S3 gives no reason where it refuses to say what is at a path; it does where it refuses to list.
    """
    try:
        info = filesystem.get_file_info(path)
    except OSError as error:
        if _UNREACHED not in str(error):
            _list(filesystem, path)
        raise
    if info.type == pyarrow.fs.FileType.NotFound:
        _list(filesystem, path)
    return info


def _list(filesystem: Any, path: str) -> None:
    if isinstance(filesystem, pyarrow.fs.S3FileSystem):
        with suppress(FileNotFoundError):
            filesystem.get_file_info(pyarrow.fs.FileSelector(path))


def meaning(error: OSError) -> str:
    """What an error of a store means and which setting to look at, then its first line."""
    if error.errno and _LOCAL in str(error):
        return os.strerror(error.errno)
    said = _NOISE.sub("", error.strerror or str(error).partition("\n")[0])
    code = _CODE.search(said)
    known = _MEANINGS.get(code[1]) if code else None
    return f"{known} ({said})" if known else said
