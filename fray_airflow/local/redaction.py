"""What of a job's environment is hidden when the request is echoed: by name, by look, by format."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

HIDDEN = "[REDACTED]"

_TOKEN = frozenset({"token", "tokens"})
_SECRET = _TOKEN | frozenset(
    [
        "apikey",
        "auth",
        "authentication",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pwd",
        "secret",
        "secrets",
        "session",
        "sessions",
    ]
)
_SECRET_PAIRS = frozenset({("access", "key"), ("api", "key"), ("private", "key")})
_COUNTING = frozenset(
    [
        "avg",
        "budget",
        "count",
        "len",
        "length",
        "limit",
        "max",
        "mean",
        "min",
        "num",
        "per",
        "size",
        "sum",
        "total",
        "window",
    ]
)

_PLAIN = frozenset(
    [
        "address",
        "commit",
        "commit_sha",
        "file",
        "filename",
        "filepath",
        "git_hash",
        "git_sha",
        "hostname",
        "image_tag",
        "ip_address",
        "kind",
        "mode",
        "name",
        "namespace",
        "path",
        "peer",
        "phase",
        "reason",
        "region",
        "scale_group",
        "shard",
        "stage",
        "state",
        "status",
        "target",
        "uri",
        "url",
        "user_agent",
        "username",
        "zone",
    ]
)
_PLAIN_ENDINGS = ("_id", "_idx", "_index", "_name", "_no", "_num")

_WORD_BOUNDARY = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])"
)
_WORD = re.compile("[A-Za-z]+|[0-9]+")

_KEY = re.compile("[A-Za-z0-9+/_-]+={0,2}")
_KEY_CHUNK = re.compile("[A-Za-z0-9+/_=-]+")
_KEY_LENGTH = 24
_KEY_LENGTH_IN_TEXT = 32
_KEY_ENTROPY = 3.5
_KEY_PADDING = 2

_FORMATS = {
    "OpenAI": r"sk-[\w-]{20,}",
    "AWS": r"A[KS]IA[0-9A-Z]{16}",
    "GitHub": r"gh[oprsu]_[A-Za-z0-9]{36,}",
    "Slack": r"xox[abprs]-[A-Za-z0-9-]{10,}",
    "JSON web token": r"eyJ[\w-]+(?:\.[\w-]+){2}",
}
_FORMATTED = re.compile(
    # A key with nothing before PRIVATE, which is how PKCS #8 writes it, is not known to Iris as one.
    r"-----BEGIN [A-Z ]+PRIVATE KEY-----.+?-----END [A-Z ]+PRIVATE KEY-----"
    rf"|(?<![\w-])(?:{'|'.join(_FORMATS.values())})(?![\w-])",
    re.ASCII | re.DOTALL,
)


def redacted(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables as Iris shows them.

    >>> redacted({"HF_TOKEN": "x", "MAX_TOKENS": "8", "NOTE": "the key is sk-abcdefghijklmnopqrst"})
    {'HF_TOKEN': '[REDACTED]', 'MAX_TOKENS': '8', 'NOTE': 'the key is [REDACTED]'}
    """
    return {name: _shown(name, value) for name, value in variables.items()}


def without_secrets(variables: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The variables for their own author, who may see long random-looking values such as paths and hashes.

    Secrets by name or format are hidden, and every value that holds one of `secrets`.

    >>> without_secrets({"HF_TOKEN": "x", "URL": "https://me:pw9@host", "STORE": "/a/b1"}, ["pw9"])
    {'HF_TOKEN': '[REDACTED]', 'URL': '[REDACTED]', 'STORE': '/a/b1'}
    """
    known = [secret for secret in secrets if secret]
    return {
        name: HIDDEN if _is_secret(name) or any(each in value for each in known) else _FORMATTED.sub(HIDDEN, value)
        for name, value in variables.items()
    }


def _shown(name: str, value: str) -> str:
    if _is_secret(name):
        return HIDDEN
    if _is_plain(name):
        # Names and ids are long and look random; only what is a secret by its format goes.
        return _FORMATTED.sub(HIDDEN, value)
    if len(value) >= _KEY_LENGTH and _KEY.fullmatch(value) and _entropy(value) >= _KEY_ENTROPY:
        return HIDDEN
    return _KEY_CHUNK.sub(_without_key, _FORMATTED.sub(HIDDEN, value))


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(_WORD_BOUNDARY.sub(" ", name))]
    found = _SECRET.intersection(words)
    if found <= _TOKEN and _COUNTING.intersection(words):
        # Tokens that are counted are those of a text.
        found = frozenset()
    return bool(found) or any(pair in _SECRET_PAIRS for pair in pairwise(words))


def _is_plain(name: str) -> bool:
    lowered = name.lower()
    return lowered in _PLAIN or lowered.removesuffix("s").endswith(_PLAIN_ENDINGS)


def _without_key(found: re.Match[str]) -> str:
    """What stands before a "=" in the middle is a name, not a key."""
    chunk = found[0]
    name, equals, key = chunk.rstrip("=").rpartition("=")
    padding = chunk[len(name + equals + key) :]
    is_short = len(key) < _KEY_LENGTH_IN_TEXT
    if is_short or len(padding) > _KEY_PADDING or _entropy(key + padding) < _KEY_ENTROPY:
        return chunk
    return name + equals + HIDDEN


def _entropy(text: str) -> float:
    """Bits per character, were each drawn on its own.

    >>> _entropy("abab"), _entropy("abcdefgh")
    (1.0, 3.0)
    """
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
