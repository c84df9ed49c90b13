"""Several calls that make one answer, written once for both worlds: a generator that yields what it asks.

An IrisError is thrown into the generator at the question that it answers, so that it may be caught there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from fray_airflow.errors import IrisError


def follow[Q, T](steps: Generator[Q, Any, T], perform: Callable[[Q], Any]) -> T:
    """What `steps` returns, each of its questions answered by `perform`."""
    try:
        question = next(steps)
        while True:
            try:
                answer = perform(question)
            except IrisError as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def afollow[Q, T](steps: Generator[Q, Any, T], perform: Callable[[Q], Awaitable[Any]]) -> T:
    """The same where `perform` is awaited."""
    try:
        question = next(steps)
        while True:
            try:
                answer = await perform(question)
            except IrisError as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
