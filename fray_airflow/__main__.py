"""`python -m fray_airflow` is `fray-airflow`."""

import sys

from fray_airflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
