"""TaskFlow on Iris: prepare on a CPU host, train three learning rates on TPU slices, keep the best."""

from airflow.sdk import dag, task

from fray_airflow import ResourceConfig

LEARNING_RATES = [0.03, 0.3, 1.1]


@task.iris(resource_config=ResourceConfig.with_cpu(cpu=1, ram="1g"))
def prepare(points: int) -> list:
    return [[x / points, 3 * x / points + 1] for x in range(points)]


@task.iris(resource_config=ResourceConfig.with_tpu("v5p-8"), map_index_template="{{ task.op_kwargs['rate'] }}")
def train(data: list, rate: float) -> dict:
    slope = offset = loss = 0.0
    for _ in range(200):
        errors = [(slope * x + offset - y, x) for x, y in data]
        loss = sum(error**2 for error, _ in errors) / len(data)
        slope -= rate * sum(error * x for error, x in errors) / len(data)
        offset -= rate * sum(error for error, _ in errors) / len(data)
    return {"rate": rate, "loss": loss, "slope": slope}


@task
def pick_best(runs: list) -> dict:
    return min(runs, key=lambda run: run["loss"])


@dag(schedule=None, tags=["iris"])
def taskflow():
    data = prepare(20)
    pick_best(train.partial(data=data).expand(rate=LEARNING_RATES))


taskflow()
