"""Makes the fixtures local_iris, iris_connection, run_operator and run_dag known to the tests beside it."""

pytest_plugins = ["fray_airflow.testing"]
