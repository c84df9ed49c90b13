"""Whether all went as scripted, in words that help whoever wrote the script."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from .faults import Faults
from .script import Rule, Script
from .submission import Submission


def complaints(script: Script, faults: Faults, submissions: Sequence[Submission]) -> list[str]:
    """One text for each thing that did not go as scripted, with what to do."""
    strangers = [each for each in submissions if each.job_id in script.strangers]
    if not script.rules or script.allows_others:
        strangers = []
    return [
        *(_unexpected(each, script.rules) for each in strangers),
        *(_unmet(rule, submissions) for rule in script.rules if rule.left),
        *(
            f"local_iris.{fault}, and none came. The task made fewer calls than the test meant: script less "
            "trouble, or see that the task comes so far."
            for fault in faults.unused()
        ),
    ]


def _unexpected(submission: Submission, rules: Sequence[Rule]) -> str:
    spent = [rule.pattern for rule in rules if rule.covers(submission.name, submission.task_id)]
    pattern = spent[0] if spent else submission.task_id or submission.name
    if spent:
        why = (
            f"The outcomes of local_iris.script({pattern!r}, ...) were used up before. Each try, rung, slice and "
            "mapped instance of a task is a job and takes one."
        )
        wanted = f"Give it one more: local_iris.script({pattern!r}, ..., Outcome.succeed())"
    else:
        why = f"The test scripts {', '.join(sorted({repr(rule.pattern) for rule in rules}))} and nothing else."
        wanted = f"If the job is right: local_iris.script({pattern!r})"
    return (
        f"A job that the script has no outcome for:\n  {submission}\n{why}\n{wanted}\n"
        "If no job but those matters here: local_iris.allow_others()"
    )


def _unmet(rule: Rule, submissions: Sequence[Submission]) -> str:
    left = "\n".join(f"  {outcome}" for outcome in rule.left)
    came = "".join(f"\n  {each}" for each in submissions) or " nothing."
    return (
        f"local_iris.script({rule.pattern!r}, ...): no attempt met\n{left}\n{_why(rule, submissions)}\nSubmitted:{came}"
    )


def _why(rule: Rule, submissions: Sequence[Submission]) -> str:
    if any(rule.covers(each.name, each.task_id) for each in submissions):
        return (
            "Its jobs made fewer attempts. The first attempt of each job takes an outcome, and each further one that "
            "Iris makes after a failure or a preemption; mind max_retries_failure, max_retries_preemption and retries."
        )
    close = get_close_matches(rule.pattern, {each.task_id or each.name for each in submissions}, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"No job of a task {rule.pattern!r} was submitted.{meant} "
        'A script names the id of an Airflow task, or a job; globs such as "*train*" fit both.'
    )
