"""What could never be placed. What is free is tested beside the sensors: here other cases use the machines too."""

from __future__ import annotations

import pytest
from casebook import case
from iris_under_test import Iris

from fray_airflow import ResourceConfig
from fray_airflow.errors import InvalidSpecError


@case
def capacity_of_an_unknown_device(iris: Iris) -> None:
    """A device of no group is impossible, and told with those that there are."""
    found = iris.client.capacity(ResourceConfig.with_tpu("v5litepod-8"))
    assert not found.possible
    assert "its groups have cpu, gpu h100, tpu v4-16, tpu v5p-16, tpu v5p-8, tpu v6e-16." in found.text


@case
def capacity_elsewhere(iris: Iris) -> None:
    """A region of no group is impossible too; another cluster is none of this controller's business."""
    assert not iris.client.capacity(ResourceConfig.with_tpu("v5p-16", regions=["mars"])).possible
    assert not iris.client.capacity(ResourceConfig.with_tpu("v5p-16", zone="mars-a", regions=["mars"])).possible
    with pytest.raises(InvalidSpecError, match="target_cluster"):
        iris.client.capacity(ResourceConfig.with_tpu("v5p-16", target_cluster="far"))
