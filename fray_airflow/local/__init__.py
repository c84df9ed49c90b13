"""An Iris in this process: for demos, tests and examples, not for work.

>>> from fray_airflow.local import Fleet, LocalIris
>>> with LocalIris(Fleet.of(cpu=1), run="script") as iris:
...     iris.target.startswith("grpc://127.0.0.1:")
True
"""

from .fleet import Fleet
from .script import Outcome
from .server import LocalIris
from .submission import Submission
from .timing import Timing

__all__ = ["Fleet", "LocalIris", "Outcome", "Submission", "Timing"]
