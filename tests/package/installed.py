"""What `smoke.py` checks in an environment that holds nothing but the wheel and its requirements."""

import logging
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

RECORDS: list[logging.LogRecord] = []


class Recorder(logging.Handler):
    """Airflow reports what is wrong with a provider in its log only."""

    def emit(self, record: logging.LogRecord) -> None:
        RECORDS.append(record)


def main() -> None:
    import fray_airflow

    source = Path(fray_airflow.__file__).parent
    assert source.is_relative_to(sys.prefix), f"imported from {source}, not from the wheel"
    check_provider()
    check_examples(source / "example_dags")


def check_provider() -> None:
    from airflow.providers_manager import ProvidersManager

    recorder = Recorder(logging.WARNING)
    for name in ("airflow.providers_manager", "airflow._shared.providers_discovery.providers_discovery"):
        logging.getLogger(name).addHandler(recorder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        manager = ProvidersManager()
        provider = manager.providers["fray-airflow"]
        hook = manager.hooks["iris"]
        manager.initialize_providers_taskflow_decorator()
        manager.initialize_providers_triggers()
        links = manager.extra_links_class_names
    said = [record.getMessage() for record in RECORDS] + [str(warning.message) for warning in caught]
    assert not [text for text in said if "fray" in text or "iris" in text.lower()], "\n".join(said)
    assert provider.version == version("fray-airflow") == provider.data["versions"][0]
    assert hook is not None
    assert hook.package_name == "fray-airflow"

    from airflow._shared.module_loading import import_string

    from fray_airflow.hooks import IrisHook

    assert import_string(hook.hook_class_name) is IrisHook
    print(f"provider fray-airflow {provider.version}, connection type {IrisHook.conn_type}, {len(links)} links")


def check_examples(folder: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    files = sorted(folder.glob("*.py"))
    bag = DagBag(dag_folder=folder, safe_mode=False)
    assert not bag.import_errors, "\n".join(f"{path}:\n{error}" for path, error in bag.import_errors.items())
    assert bag.dags, f"no DAG in {files}"
    print(f"{len(bag.dags)} example DAGs: {', '.join(sorted(bag.dags))}")


if __name__ == "__main__":
    main()
