"""`@task.iris`: a Python function as a job on Iris, and what it returns as what the task returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from fray_airflow.decorators.context_values import LIVE, refusal, values_for, wanted
from fray_airflow.errors import InvalidSpecError
from fray_airflow.exceptions import for_airflow
from fray_airflow.job import Entrypoint
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.operators.observing import JOB_FACTS_KEY
from fray_airflow.results import MAX_RESULT_BYTES, ResultOptions

if TYPE_CHECKING:
    from airflow.sdk import Context


class _IrisDecoratedOperator(DecoratedOperator, IrisSubmitJobOperator):
    """Runs `python_callable` in each replica of a job; returns its result, and pushes the job's facts.

    result: "json"; "pickle" lets what is not JSON through too, and the Airflow worker unpickles it.
    result_from: "first" returns replica 0's value, "all" a list by replica.
    max_result_bytes: of one replica's result as text. The job fails if it is larger.
    result_uri: the job writes its result there, and this worker reads it, instead of over Iris's log service.
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *(name for name in IrisSubmitJobOperator.template_fields if name != "command"),
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **IrisSubmitJobOperator.template_fields_renderers,
    }
    shallow_copy_attrs: Sequence[str] = ("python_callable",)
    custom_operator_name = "@task.iris"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        result: str = "json",
        result_from: str = "first",
        max_result_bytes: int = MAX_RESULT_BYTES,
        **kwargs: Any,
    ) -> None:
        try:
            self._options = ResultOptions(result, result_from, max_result_bytes, kwargs.get("result_uri"))
        except InvalidSpecError as error:
            raise for_airflow(error) from None
        given = [name for name in ("command", "entrypoint") if kwargs.pop(name, None) is not None]
        if given:
            faults = [f"{name} is given, but the function is what runs" for name in given]
            raise for_airflow(InvalidSpecError("@task.iris", faults))
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=op_kwargs,
            # Its arguments are known when they have been rendered.
            entrypoint=Entrypoint.from_callable(python_callable, result=self._options),
            **kwargs,
        )
        # Which parameters of a mapped function have an argument is not known before it is expanded.
        self._check_function(check_parameters=not kwargs.get("_airflow_mapped_validation_only"))

    def _check_function(self, *, check_parameters: bool) -> None:
        faults = []
        if not self.wait_for_completion:
            faults.append("wait_for_completion=False has no result to return; use IrisSubmitJobOperator for that")
        if check_parameters:
            names = wanted(self.python_callable, self.op_args, self.op_kwargs, KNOWN_CONTEXT_KEYS)
            faults.extend(refusal(name) for name in names if name in LIVE)
        if faults:
            raise for_airflow(InvalidSpecError(f"@task.iris {self.task_id!r}", faults))

    def _execute(self, context: Context, resumed: Mapping[str, Any] | None = None) -> Any:
        names = wanted(self.python_callable, self.op_args, self.op_kwargs, {*KNOWN_CONTEXT_KEYS, *context})
        self._entrypoint = Entrypoint.from_callable(
            self.python_callable,
            list(self.op_args),
            {**self.op_kwargs, **values_for(names, context)},
            result=self._options,
        )
        return super()._execute(context, resumed)

    def _returned(self, facts: dict[str, Any]) -> Any:
        # First, so that the facts of a job are there even if its result cannot be used.
        self._ti.xcom_push(key=JOB_FACTS_KEY, value={name: fact for name, fact in facts.items() if name != "result"})
        return super()._returned(facts)["result"]


def iris_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """`@task.iris(resource_config=..., environment=...)`, with the arguments of IrisSubmitJobOperator.

    The function and its arguments are pickled by value; it runs in each replica, with what its environment has
    installed. The task returns what replica 0 returned. See `docs/taskflow.md`.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_IrisDecoratedOperator,
        **kwargs,
    )
