"""`fray-airflow iris`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import CommandError, Exit
from fray_airflow.cli.output import show, show_json
from fray_airflow.errors import InvalidSpecError

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.local import Fleet, LocalIris


def add(commands: Commands) -> None:
    parser = add_command(commands, "iris", run, "serve an embedded Iris until interrupted, for trying things out")
    parser.add_argument("--fleet", type=Path, metavar="FILE", help="the machines it pretends to have, in YAML")
    parser.add_argument("--host", default="127.0.0.1", help="(default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="for gRPC (default: a free one)")
    parser.add_argument("--connect-port", type=int, default=0, help="for Connect over HTTP/1.1 (default: a free one)")


def run(options: Namespace) -> int:
    from fray_airflow.local import Fleet, LocalIris
    from fray_airflow.local.serve import serve

    fleet = read_fleet(options.fleet) if options.fleet else Fleet.default()
    iris = LocalIris(fleet, host=options.host, port=options.port, connect_port=options.connect_port)
    try:
        serve(iris, lambda: _announce(iris, as_json=options.json))
    except (OSError, RuntimeError, OverflowError) as error:
        raise CommandError(f"cannot listen on {options.host}: {error}. Choose other ports.", Exit.NO) from None
    return Exit.DONE


def read_fleet(path: Path) -> Fleet:
    """A mapping with the arguments of `Fleet.of`, or a list of them, one per region.

    Raises InvalidSpecError that names the file, the field, its value and the choices.
    """
    from fray_airflow.local import Fleet

    content = _content(path)
    parts = content if isinstance(content, list) else [content]
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidSpecError(str(path), ["holds no mapping such as `cpu: 2`, and no list of them"])
    fleet, faults = Fleet(()), []
    for number, part in enumerate(parts):
        try:
            fleet += Fleet.from_mapping(part)
        except InvalidSpecError as error:
            where = f"[{number}] " if isinstance(content, list) else ""
            faults += [f"{where}{fault}" for fault in error.faults]
    if faults:
        raise InvalidSpecError(str(path), faults)
    return fleet


def _content(path: Path) -> Any:
    # It comes with Airflow.
    import yaml  # type: ignore[import-untyped]  # its types would be one more requirement of the checks

    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidSpecError(str(path), [f"cannot be read ({error.strerror})"]) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidSpecError(str(path), [f"is not YAML: {' '.join(str(error).split())}"]) from None


def _announce(iris: LocalIris, *, as_json: bool) -> None:
    if as_json:
        show_json({"target": iris.target, "url": iris.url}, one_line=True)
        return
    show(f"Iris answers gRPC at {iris.target} and Connect at {iris.url}. Ctrl-C ends it.")
    show(f"""export AIRFLOW_CONN_IRIS_DEFAULT='{{"conn_type": "iris", "host": "{iris.target}"}}'""")
