"""Jobs as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fray_airflow.cli.exits import CommandError

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient

JOB_HELP = "a job id, /user/name, or the name of a job of our own"


def job_id_of(text: str, client: IrisClient) -> str:
    """Raises CommandError for what is neither an id nor a name."""
    if text.strip("/") and text == text.strip():
        if text.startswith("/") and text.count("/") >= 2 and all(text.split("/")[1:]):
            return text
        if "/" not in text:
            return f"/{client.user()}/{text}"
    raise CommandError(f"{text!r} is no job; give {JOB_HELP}")
