"""Specs as plain dicts and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow import CpuConfig, EnvironmentConfig, GpuConfig, ResourceConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.plain import environment_from, resource_config_from, to_plain
from fray_airflow.resources import CONTAINER_PROFILES

NAMES = st.text("abcxyz019-", min_size=1, max_size=8)
TEXTS = st.text(max_size=12)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(1, 500) | st.floats(0.1, 500),
        "ram": st.sampled_from(["512m", "4g", "1.5t"]),
        "disk": st.sampled_from(["10g", "64g"]),
        "preemptible": st.booleans(),
        "regions": st.lists(NAMES, min_size=1, max_size=3),
        "zone": NAMES,
        "target_cluster": NAMES,
        "image": NAMES,
        "replicas": st.integers(1, 300),
        "container_profile": st.sampled_from(CONTAINER_PROFILES),
    },
)
RESOURCES = st.one_of(
    FIELDS.map(lambda fields: ResourceConfig.with_cpu(**fields)),
    st.builds(
        lambda model, count, others, fields: ResourceConfig.with_gpu(
            model, count, device_alternatives=others or None, **fields
        ),
        st.sampled_from(["H100", "A100-80G", "auto"]),
        st.integers(1, 8),
        st.lists(st.sampled_from(["A10", "L4"]), max_size=2),
        FIELDS,
    ),
    st.builds(
        lambda kind, slices, fields: ResourceConfig.with_tpu(kind, slice_count=slices, **fields),
        st.sampled_from(["v5p-8", "v5p-16", "V5E-16", ["v5p-16", "v4-16"]]),
        st.integers(1, 4),
        FIELDS,
    ),
)
VARIABLES = st.dictionaries(st.text("ABC_", min_size=1, max_size=5), TEXTS, max_size=3)
ENVIRONMENTS = st.builds(
    EnvironmentConfig,
    workspace=st.none() | NAMES,
    files=st.dictionaries(NAMES, NAMES, max_size=2),
    env_vars=VARIABLES,
    extras=st.lists(NAMES, max_size=2),
    pip_packages=st.lists(NAMES, max_size=2),
    setup_scripts=st.none() | st.lists(TEXTS, max_size=2),
)


@given(RESOURCES)
def test_resources_survive_the_way_to_json_and_back(config):
    plain = to_plain(config)
    assert resource_config_from(plain) == config
    assert resource_config_from(json.loads(json.dumps(plain))) == config
    assert resource_config_from(json.dumps(plain)) == config


@given(ENVIRONMENTS)
def test_an_environment_survives_the_way_to_json_and_back(environment):
    plain = to_plain(environment)
    assert environment_from(plain) == environment
    assert environment_from(json.dumps(plain)) == environment


def test_only_what_differs_from_the_defaults_is_kept():
    assert to_plain(ResourceConfig()) == {}
    assert to_plain(ResourceConfig.with_gpu("H100", 8)) == {"device": {"kind": "gpu", "variant": "H100", "count": 8}}


def test_secrets_are_left_out():
    environment = EnvironmentConfig(env_vars={"A": "1"}, secrets={"KEY": "hush"})
    assert to_plain(environment) == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize("value", [None, "{{ x }}", {"cpu": 4}, ["a"], ("a", "b"), 7, object(), len])
def test_what_is_no_spec_comes_back_as_the_same_object(value):
    """Airflow does not render an object that came out of an XCom; a copy would be."""
    assert to_plain(value) is value


def test_specs_in_a_list_become_plain_and_their_neighbours_stay():
    template = {"cpu": "{{ params.cpu }}"}
    plain = to_plain([ResourceConfig.with_cpu(cpu=4), template])
    assert plain == [{"cpu": 4}, template]
    assert plain[1] is template


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cpu": " 4 ", "replicas": "3"}, ResourceConfig.with_cpu(cpu=4, replicas=3)),
        ({"preemptible": "False"}, ResourceConfig.with_cpu(preemptible=False)),
        ({"regions": "a, b"}, ResourceConfig.with_cpu(regions=["a", "b"])),
        ({"regions": '["a", "b"]'}, ResourceConfig.with_cpu(regions=["a", "b"])),
        ({"zone": "None", "image": "None", "regions": "None", "container_profile": "None"}, ResourceConfig()),
        ({"device": {"kind": "gpu", "variant": "H100", "count": "8"}}, ResourceConfig.with_gpu("H100", 8)),
        ({"device": {"kind": "cpu"}}, ResourceConfig()),
        ({"device": TpuConfig("v5p-8")}, ResourceConfig(device=TpuConfig("v5p-8"))),
        ({"tpu": "v5p-16", "slice_count": "2"}, ResourceConfig.with_tpu("v5p-16", slice_count=2)),
        ({"tpu": ["v5p-16", "v4-16"]}, ResourceConfig.with_tpu(["v5p-16", "v4-16"])),
        ({"tpu": "v5p-8", "ram": "16g"}, ResourceConfig.with_tpu("v5p-8", ram="16g")),
        ({"gpu": "H100", "gpu_count": "8"}, ResourceConfig.with_gpu("H100", count=8)),
        ({"gpu": "H100"}, ResourceConfig.with_gpu("H100")),
        ('{"cpu": 2}', ResourceConfig.with_cpu(cpu=2)),
    ],
)
def test_rendered_texts_and_builder_keys_are_understood(given, expected):
    assert resource_config_from(given) == expected


def test_a_spec_is_taken_as_it_is():
    config, environment = ResourceConfig.with_cpu(cpu=2), EnvironmentConfig()
    assert resource_config_from(config) is config
    assert environment_from(environment) is environment
    assert environment_from(None) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cpus": 4, "memory": "1g"}, ["'cpus' is not a field", "'memory' is not a field", "replicas"]),
        ({"cpu": "many", "replicas": "2.5"}, ["cpu='many' is not a number", "replicas='2.5' is not a number"]),
        ({"preemptible": "maybe"}, ["preemptible='maybe' is not true or false"]),
        ({"regions": "[a"}, ["is not a list"]),
        ({"tpu": "v5p-8", "gpu": "H100"}, ["'tpu' and 'gpu' are both given"]),
        ({"tpu": "v5p-8", "device": {}}, ["'tpu' and 'device' are both given"]),
        ({"gpu": "H100", "slice_count": 2}, ["'gpu' and 'slice_count' are both given"]),
        ({"gpu_count": 8}, ["'gpu_count' is given without its device"]),
        ({"slice_count": 2}, ["'slice_count' is given without its device"]),
        ({"device": {"kind": "npu"}}, ["device kind 'npu' is unknown", "cpu, gpu, tpu"]),
        ({"device": {"kind": ["gpu"]}}, ["is unknown"]),
        ({"device": {"kind": "gpu", "color": 1}}, ["'color' is not a field", "count, variant"]),
        ({"device": {"kind": "gpu"}}, ["variant"]),
        ({"device": "H100"}, ["device='H100'"]),
        ({"tpu": None}, ["NoneType"]),
        ({1: 2, None: 3}, ["1 is not a field", "None is not a field"]),
        ("v5p-8", ["str 'v5p-8' is not a spec"]),
        (7, ["int '7' is not a spec"]),
    ],
)
def test_what_cannot_be_right_is_one_error_with_every_fault(given, words):
    with pytest.raises(InvalidSpecError) as caught:
        resource_config_from(given)
    for word in words:
        assert word in str(caught.value)


def test_secrets_cannot_come_in_a_dict():
    """What an operator keeps is shown in the UI."""
    with pytest.raises(InvalidSpecError, match="'secrets' is not a field"):
        environment_from({"secrets": {"KEY": "hush"}})


def test_an_environments_rendered_texts_are_understood():
    given = {"docker_image": "None", "workspace": ".", "extras": "a,b", "setup_scripts": "None"}
    assert environment_from(given) == EnvironmentConfig(workspace=".", extras=["a", "b"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=5,
    ),
    st.sampled_from(["cpu", "ram", "device", "tpu", "gpu", "regions", "zone", "replicas", "slice_count", "image"]),
)
def test_any_value_is_a_spec_or_an_error_of_ours(value, name):
    for given_value in (value, {name: value}, {"device": {"kind": "gpu", "variant": value}}):
        try:
            config = resource_config_from(given_value)
        except InvalidSpecError:
            continue
        assert isinstance(config.device, CpuConfig | GpuConfig | TpuConfig)
