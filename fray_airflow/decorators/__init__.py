"""TaskFlow: `@task.iris`, registered with Airflow by the provider info."""

from fray_airflow.decorators.iris import iris_task

__all__ = ["iris_task"]
