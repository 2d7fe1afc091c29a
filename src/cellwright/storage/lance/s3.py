"""A bucket as the place of a LanceDB index: how it is reached, and whether several writers are safe there.

LanceDB commits by a PUT that must fail if the object exists already (`If-None-Match: *`). A store that ignores the condition lets two
writers silently overwrite each other's commits, so the condition is tried before anything is written.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import quote, urlsplit

from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret

SCHEME = "s3://"
PLACE = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(?:/[\w.=-]+)*)/?", re.ASCII)
ANSWER_SECONDS = 10.0
DONE = 200
REFUSED = frozenset({409, 412})
UNKNOWN = frozenset({400, 405, 501})
"""Answers of stores that do not know the condition at all."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix in a bucket, and the keys to it."""

    uri: str
    name: str
    prefix: str
    endpoint: str
    region: str
    key: str
    secret: Secret
    token: Secret | None

    def options(self) -> dict[str, str]:
        """The same for LanceDB, so that it uses exactly what was checked."""
        options = {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret.reveal(),
            "aws_region": self.region,
            "aws_endpoint": self.endpoint,
            "aws_virtual_hosted_style_request": "false",
            "allow_http": str(self.endpoint.startswith("http://")).lower(),
        }
        return options | ({"aws_session_token": self.token.reveal()} if self.token else {})

    def check_conditions(self) -> None:
        """ConfigError if the store cannot be used, or does not honour `If-None-Match`. OSError if it does not answer."""
        object_name = f"{self.prefix}/probe-{secrets.token_hex(8)}".lstrip("/")
        first = self._request("PUT", object_name)
        if first in UNKNOWN:
            raise self._unsafe()
        if first != DONE:
            raise ConfigError(
                f"--lance-uri: the store answers {first} to a write below {self.uri}",
                hint="check the bucket, AWS_REGION and AWS_ENDPOINT_URL, and that the key may list, read, write and delete there",
            )
        second = self._request("PUT", object_name)
        self._request("DELETE", object_name)
        if second not in REFUSED:
            raise self._unsafe()

    def _unsafe(self) -> ConfigError:
        return ConfigError(
            f"--lance-uri: the store of {self.uri} does not honour If-None-Match, so two writers would lose each other's commits",
            hint="use a store that does (Amazon S3 does), or name a folder",
        )

    def _request(self, method: str, object_name: str) -> int:
        endpoint = urlsplit(self.endpoint)
        path = f"{endpoint.path.rstrip('/')}/{self.name}/{quote(object_name)}"
        kind = HTTPSConnection if endpoint.scheme == "https" else HTTPConnection
        connection = kind(endpoint.netloc, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, headers=self._headers(method, endpoint.netloc, path, datetime.now(UTC)))
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def _headers(self, method: str, host: str, path: str, now: datetime) -> dict[str, str]:
        """Headers signed with AWS Signature Version 4. The body is always empty."""
        when, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        signed = {"host": host, "x-amz-content-sha256": hashlib.sha256().hexdigest(), "x-amz-date": when}
        if self.token:
            signed["x-amz-security-token"] = self.token.reveal()
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        request = f"{method}\n{path}\n\n{lines}\n{names}\n{signed['x-amz-content-sha256']}"
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        sign = f"AWS4{self.secret.reveal()}".encode()
        for part in (*scope.split("/"), text):
            sign = hmac.digest(sign, part.encode(), "sha256")
        credential = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={sign.hex()}"
        condition = {"If-None-Match": "*"} if method == "PUT" else {}
        return {**signed, "Authorization": credential, **condition}


def bucket_of(uri: str, environment: Mapping[str, str]) -> Bucket:
    """The bucket that the setting names, with the endpoint and the keys of the environment."""
    match = PLACE.fullmatch(uri)
    if match is None:
        raise ConfigError("--lance-uri is no address of a bucket", hint="write it as s3://bucket/prefix")
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise ConfigError(
            "--lance-uri names a bucket, but there is no key to it",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for keys that end)",
        )
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    custom_endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = (custom_endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/")
    if not endpoint.startswith(("https://", "http://")):
        raise ConfigError("AWS_ENDPOINT_URL is no address", hint="write it as https://host:port")
    token = environment.get("AWS_SESSION_TOKEN")
    return Bucket(
        uri.rstrip("/"),
        match["bucket"],
        match["prefix"].strip("/"),
        endpoint,
        region,
        key,
        Secret(secret),
        Secret(token) if token else None,
    )
