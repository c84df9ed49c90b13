"""What the echo of a request hides of the environment."""

from __future__ import annotations

import pytest

from fray_airflow.local.redaction import HIDDEN, redacted

KEY = "0123456789abcdefghijklmn"
LONG_KEY = f"{KEY}opqrstuv"


def shown(name: str, value: str) -> str:
    return redacted({name: value})[name]


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "hfToken", "HFToken", "token2", "SESSION_TOKEN_COUNT", "AUTH_ID", "MY-PASSWD", "db.pwd"),
        *("APIKEY", "WANDB_API_KEY", "wandbApiKey", "AWS_ACCESS_KEY_ID", "ssh-private-key"),
    ],
)
def test_secret_names_hide_any_value(name):
    """Whole words count, however they are joined."""
    assert shown(name, "") == HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "AUTHOR", "PASSWORDLESS", "KEY", "CACHE_KEY", "KEY_API", "API_2_KEY"),
        *("MAX_TOKENS", "token_count", "tokensPerSecond"),
    ],
)
def test_names_that_only_look_secret_hide_nothing(name):
    """A word that merely begins like one, a key that is none of a service, and tokens that are counted."""
    assert shown(name, "value") == "value"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (KEY, HIDDEN),
        (KEY[:-1], KEY[:-1]),
        (f"{KEY[:-2]}==", HIDDEN),
        (f"{KEY}===", f"{KEY}==="),
        ("abcdefgh" * 5, "abcdefgh" * 5),
        (f"of {KEY} there", f"of {KEY} there"),
        (f"of {LONG_KEY} there", f"of {HIDDEN} there"),
        (f"of {LONG_KEY}==, there", f"of {HIDDEN}, there"),
        (f"s3:{LONG_KEY}", f"s3:{HIDDEN}"),
        (f"key={LONG_KEY}", f"key={HIDDEN}"),
        (f"{LONG_KEY}=value", f"{LONG_KEY}=value"),
    ],
)
def test_values_that_look_like_keys_are_hidden(value, result):
    """24 characters of base64 when there is nothing else, 32 in a text, and only where they are mixed."""
    assert shown("ANY", value) == result


@pytest.mark.parametrize("name", ["RUN_ID", "run_ids", "HOST_NAME", "ZONE", "Path", "commit_sha"])
def test_identifiers_may_look_like_keys(name):
    """What is a secret by its format is one under any name."""
    assert shown(name, LONG_KEY) == LONG_KEY
    assert shown(name, f"ghp_{'a' * 36}") == HIDDEN


@pytest.mark.parametrize(
    "secret",
    [
        f"sk-{'a' * 20}",
        f"AKIA{'A' * 16}",
        f"ASIA{'0' * 16}",
        f"ghs_{'a' * 36}",
        "xoxb-0000000000",
        "eyJh.eyJz.c2ln",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_formats_of_well_known_secrets_are_hidden(secret):
    assert shown("ANY", f"the secret ({secret})!") == f"the secret ({HIDDEN})!"


@pytest.mark.parametrize(
    "text", [f"sk-{'a' * 19}", f"xsk-{'a' * 20}", f"AKIA{'A' * 17}", f"ghx_{'a' * 27}", "eyJh.eyJz"]
)
def test_what_only_begins_like_a_secret_is_shown(text):
    assert shown("ANY", text) == text
