"""Job and task ids. Iris limits neither characters nor length, only the shape."""

from __future__ import annotations

from typing import NamedTuple


class JobName(NamedTuple):
    """`/user/root[/child...]`, taken apart."""

    user: str
    path: tuple[str, ...]

    @property
    def job_id(self) -> str:
        return "/".join(("", self.user, *self.path))

    @property
    def parent_id(self) -> str:
        """The job this one is a child of; "" for a root job."""
        return "/".join(("", self.user, *self.path[:-1])) if len(self.path) > 1 else ""

    @property
    def last(self) -> str:
        return self.path[-1]

    def owned_by(self, user: str) -> JobName:
        return JobName(user, self.path)


def parse_job_name(text: str) -> JobName:
    """Raises ValueError in Iris's words. Handlers let it pass, which makes a bad name an internal error, as there.

    >>> parse_job_name("/alice/train/eval").parent_id
    '/alice/train'
    """
    if not text.startswith("/"):
        raise ValueError(f"Job name must use canonical '/<user>/<job>[...]' format: {text}")
    parts = text.split("/")[1:]
    if not all(part.strip() for part in parts):
        raise ValueError(f"Job name contains empty or whitespace-only component: {text}")
    if len(parts) < 2:
        raise ValueError(f"Job name must use canonical '/<user>/<job>[...]' format: {text}")
    return JobName(parts[0], tuple(parts[1:]))


def is_job_name(text: str) -> bool:
    try:
        parse_job_name(text)
    except ValueError:
        return False
    return True
