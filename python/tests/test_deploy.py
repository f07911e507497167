"""The files in `deploy` name what there is: options, ports, labels, secrets and each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import tidegate as tg

PACKAGE = Path(tg.__file__).resolve().parents[1]
DEPLOY = PACKAGE.parent / "deploy" / "kubernetes"
BASE = DEPLOY / "base"
GPU = DEPLOY / "overlays" / "gpu"
CHART = DEPLOY / "chart"

#: The secrets that the guide says to make.
SECRETS = {
    "tidegate-cluster-secret": {"secret"},
    "tidegate-cluster-tls": {"tls.crt", "tls.key", "ca.crt"},
    "tidegate-server-tls": {"tls.crt", "tls.key"},
    "tidegate-users": {"users.toml"},
}
DIRECTORY_OF_SECRETS = "/etc/tidegate/"


def documents(file: Path) -> list[dict[str, Any]]:
    with file.open() as text:
        return [document for document in yaml.safe_load_all(text) if document]


def objects() -> list[dict[str, Any]]:
    listed = documents(BASE / "kustomization.yaml")[0]["resources"]
    return [document for name in listed for document in documents(BASE / name)]


def named(kind: str, name: str) -> dict[str, Any]:
    found = [o for o in objects() if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name)
    return found[0]


WORKLOADS = [("Deployment", "tidegate-scheduler", "scheduler"), ("StatefulSet", "tidegate-executors", "executor")]


def workload(kind: str, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The workload, its pods' template and their one container."""
    of = named(kind, name)["spec"]
    template = of["template"]
    (container,) = template["spec"]["containers"]
    return of, template, container


def tidegate(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate", *words]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **(env or {})}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def filled(container: dict[str, Any]) -> list[str]:
    """The container's arguments, as Kubernetes fills them in."""
    known = {variable["name"]: f"{variable['name'].lower()}-0" for variable in container["env"]}

    def value(match: re.Match[str]) -> str:
        return known[match.group(1)]

    return [re.sub(r"\$\((\w+)\)", value, word) for word in container["args"]]


def option(container: dict[str, Any], name: str) -> str:
    (value,) = [word.partition("=")[2] for word in container["args"] if word.startswith(f"{name}=")]
    return value


def seconds(time: str) -> int:
    assert time.endswith("s"), time
    return int(time[:-1])


def selected(selector: dict[str, str]) -> list[str]:
    """The workloads whose pods a selector finds."""
    found = []
    for kind, name, _ in WORKLOADS:
        labels = workload(kind, name)[1]["metadata"]["labels"]
        if selector.items() <= labels.items():
            found.append(name)
    return found


def ports(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


@pytest.mark.parametrize("kind, name, role", WORKLOADS)
def test_the_command_takes_the_arguments(kind, name, role):
    container = workload(kind, name)[2]
    words = filled(container)
    assert container["command"] == ["/usr/local/bin/tidegate"]
    assert words[:2] == ["cluster", role]
    # Help is printed when everything before it was understood.
    asked = tidegate(*words, "--help")
    assert asked.returncode == 0, asked.stderr
    assert tidegate(*words, "--no-such-option", "--help").returncode != 0
    variables = [v["name"] for v in container["env"] if v["name"].startswith("TIDEGATE_")]
    assert len(variables) == 1
    for variable in variables:
        assert f"[env: {variable}" in asked.stdout


@pytest.mark.parametrize("kind, name, role", WORKLOADS)
def test_ports_are_those_that_it_listens_on(kind, name, role):
    container = workload(kind, name)[2]
    listened = [word.rsplit(":", 1)[1] for word in container["args"] if re.match(r"--(\w+-)?(listen|http-port)=", word)]
    assert sorted(ports(container).values()) == sorted(int(port) for port in listened)
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe].get("httpGet") or container[probe]["tcpSocket"]
        assert asked["port"] in ports(container)
        assert asked.get("path") in {"livenessProbe": ("/health", None), "readinessProbe": ("/ready", None)}[probe]


@pytest.mark.parametrize("kind, name, role", WORKLOADS)
def test_pods_are_those_of_their_workload(kind, name, role):
    of, template, container = workload(kind, name)
    assert selected(of["selector"]["matchLabels"]) == [name]
    assert of["selector"]["matchLabels"] == template["metadata"]["labels"]
    grace = template["spec"]["terminationGracePeriodSeconds"]
    assert grace > seconds(option(container, "--drain"))


@pytest.mark.parametrize("kind, name, role", WORKLOADS)
def test_files_are_those_of_secrets(kind, name, role):
    _, template, container = workload(kind, name)
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert len(mounts) == len(volumes)
    files = [word.partition("=")[2] for word in container["args"] if DIRECTORY_OF_SECRETS in word]
    assert len(files) >= 4
    for file in files:
        directory, _, key = file.rpartition("/")
        assert key in SECRETS[mounts[directory]["secret"]["secretName"]], file


def test_services_reach_what_they_name():
    for service in (o for o in objects() if o["kind"] == "Service"):
        (name,) = selected(service["spec"]["selector"])
        (kind,) = [kind for kind, other, _ in WORKLOADS if other == name]
        there = ports(workload(kind, name)[2])
        for port in service["spec"]["ports"]:
            assert port["port"] == there[port["targetPort"]], service["metadata"]["name"]


def test_executors_find_the_scheduler_and_each_other():
    of, _, container = workload("StatefulSet", "tidegate-executors")
    join = re.fullmatch(r"grpc\+tls://([\w-]+)\.\$\(NAMESPACE\)\.svc:(\d+)", option(container, "--join"))
    assert join is not None
    service = named("Service", join.group(1))["spec"]
    assert int(join.group(2)) in [port["port"] for port in service["ports"]]
    # A scheduler that waits for executors is not ready yet.
    assert service["publishNotReadyAddresses"]
    assert option(container, "--advertise") == f"$(POD).{of['serviceName']}.$(NAMESPACE).svc"
    assert named("Service", of["serviceName"])["spec"]["clusterIP"] == "None"


def test_executors_answer_their_cluster_alone():
    policies = {o["metadata"]["name"]: o["spec"] for o in objects() if o["kind"] == "NetworkPolicy"}
    reached: dict[str, dict[str, list[str] | None]] = {}
    for policy in policies.values():
        (name,) = selected(policy["podSelector"]["matchLabels"])
        (kind,) = [kind for kind, other, _ in WORKLOADS if other == name]
        there = ports(workload(kind, name)[2])
        for rule in policy["ingress"]:
            peers = rule.get("from")
            who = peers and [n for peer in peers for n in selected(peer["podSelector"]["matchLabels"])]
            for port in rule["ports"]:
                assert port["port"] in there
                reached.setdefault(name, {})[port["port"]] = who
    assert reached == {
        "tidegate-executors": {"tasks": ["tidegate-scheduler", "tidegate-executors"]},
        "tidegate-scheduler": {"join": ["tidegate-executors"], "flight": None, "http": None},
    }


def test_what_scales_and_is_kept_are_the_executors():
    scaler = named("HorizontalPodAutoscaler", "tidegate-executors")["spec"]
    target = scaler["scaleTargetRef"]
    assert named(target["kind"], target["name"])["apiVersion"] == target["apiVersion"]
    # A number of replicas would be set back by each `apply`.
    assert "replicas" not in named(target["kind"], target["name"])["spec"]
    (metric,) = [m["object"] for m in scaler["metrics"] if m["type"] == "Object"]
    described = metric["describedObject"]
    assert selected(named(described["kind"], described["name"])["spec"]["selector"]) == ["tidegate-scheduler"]
    meters = PACKAGE.parent / "crates" / "tidegate-flight" / "src" / "meters.rs"
    assert f'"{metric["metric"]["name"].removeprefix("tidegate_")}"' in meters.read_text()
    kept = named("PodDisruptionBudget", "tidegate-executors")["spec"]
    assert selected(kept["selector"]["matchLabels"]) == ["tidegate-executors"]


def test_every_file_is_used():
    listed = documents(BASE / "kustomization.yaml")[0]["resources"]
    assert sorted(listed) == sorted(f.name for f in BASE.iterdir() if f.name != "kustomization.yaml")
    keys = [(o["kind"], o["metadata"]["name"]) for o in objects()]
    assert len(keys) == len(set(keys))
    namespace = documents(BASE / "kustomization.yaml")[0]["namespace"]
    assert named("Namespace", namespace)
    config = named("ConfigMap", "tidegate")["data"]
    for kind, name, _ in WORKLOADS:
        for variable in workload(kind, name)[2]["env"]:
            of = variable["valueFrom"].get("configMapKeyRef")
            assert of is None or (of["name"] == "tidegate" and of["key"] in config)


def test_the_overlay_changes_what_is_there():
    (overlay,) = documents(GPU / "kustomization.yaml")
    assert [(GPU / path).resolve() for path in overlay["resources"]] == [BASE]
    patches = [patch["path"] for patch in overlay["patches"]]
    assert sorted(patches) == sorted(f.name for f in GPU.iterdir() if f.name != "kustomization.yaml")
    namespace = documents(BASE / "kustomization.yaml")[0]["namespace"]
    for patch in (document for path in patches for document in documents(GPU / path)):
        base = named(patch["kind"], patch["metadata"]["name"])
        assert patch["apiVersion"] == base["apiVersion"]
        assert patch["metadata"]["namespace"] == namespace
        there = [c["name"] for c in base["spec"]["template"]["spec"]["containers"]]
        for container in patch["spec"]["template"]["spec"]["containers"]:
            assert container["name"] in there
            assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
            # The stage of the Containerfile that has NVRTC.
            containerfile = (PACKAGE.parent / "docs" / "guide" / "Containerfile").read_text()
            assert f"FROM host AS {container['image'].partition(':')[2]}" in containerfile


def test_the_chart_is_the_base_unless_a_value_says_otherwise():
    assert (CHART / "base").resolve() == BASE
    (values,) = documents(CHART / "values.yaml")
    (meta,) = documents(CHART / "Chart.yaml")
    assert meta["name"] == "tidegate"
    assert meta["appVersion"] == tg.__version__
    template = (CHART / "templates" / "base.yaml").read_text()

    def listed(of: dict[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for name, value in of.items():
            found.add(prefix + name)
            if isinstance(value, dict) and name != "resources":
                found |= listed(value, f"{prefix}{name}.")
        return found

    used = set(re.findall(r"\.Values\.([\w.]+)", template))
    used |= {f"{of}.{name}" for of in ("scheduler", "executors") for name in re.findall(r"\$values\.(\w+)", template)}
    # Each value is used, and each that is used has a default.
    leaves = {name for name in listed(values) if not any(other.startswith(f"{name}.") for other in listed(values))}
    assert leaves - used == set()
    assert used - listed(values) == set()
    for (kind, name, _), of in zip(WORKLOADS, ("scheduler", "executors")):
        container = workload(kind, name)[2]
        assert container["image"] == f"{values['image']['repository']}:{values['image']['tag']}"
        assert container["resources"] == values[of]["resources"]
        assert values[of]["args"] == []
    assert values["allow"] == named("ConfigMap", "tidegate")["data"]["allow"]
    scaler = named("HorizontalPodAutoscaler", "tidegate-executors")["spec"]
    assert (values["executors"]["min"], values["executors"]["max"]) == (scaler["minReplicas"], scaler["maxReplicas"])
    # The namespace is the one that it is installed in.
    ignored = (CHART / ".helmignore").read_text().split()
    assert ignored == ["base/kustomization.yaml", "base/namespace.yaml"]


def test_the_guide_says_how_to_make_the_secrets():
    guide = (PACKAGE.parent / "docs" / "guide" / "cluster.md").read_text()
    for name, keys in SECRETS.items():
        assert name in guide, name
        assert all(key in guide for key in keys), name
