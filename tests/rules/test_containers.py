"""Dockerfile and compose file: what they name exists, what they publish is meant, what they start
starts. No Docker daemon is needed, and none of this replaces a build and `up` on one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import __version__
from app.domain import Options
from app.settings import PREFIX, load, local_path
from tests.servers import NEO4J_VERSION, free_port, valkey_server

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if "build" in one}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SECRETS = {"NEO4J_PASSWORD": "letters-and-digits", "QDRANT_API_KEY": "more-of-them"}


def instructions(name: str) -> list[str]:
    """What follows an instruction in the Dockerfile, each time it occurs."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name}\s+(.*)$", joined, flags=re.MULTILINE)


def interpolated(value: str, given: dict[str, str]) -> str:
    """`${NAME:-default}` and `${NAME:?message}` as Compose fills them in."""

    def fill(match: re.Match[str]) -> str:
        return given.get(match[1]) or (match[3] if match[2] == "-" else pytest.fail(match[3]))

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", fill, value)


def size(limit: str) -> int:
    """MiB of `512m` or `3g`."""
    return int(limit[:-1]) * {"m": 1, "g": 1024}[limit[-1]]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", sorted(OURS))
def test_our_services_start_with_what_compose_gives_them(
    service: str, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = (ROOT / ".env.example").read_text()
    handed_over = re.findall(r"^# (HELIOGRAPH_\w+)=(.*)$", example, flags=re.MULTILINE)
    for name, value in [*handed_over, *SECRETS.items()]:  # env_file: .env
        monkeypatch.setenv(name, value)
    for name, value in OURS[service]["environment"].items():  # wins over env_file
        monkeypatch.setenv(name, interpolated(value, SECRETS))
    settings = load()
    assert (settings.host, settings.port) == ("0.0.0.0", 8080)
    assert settings.graph_url.startswith("neo4j://neo4j:")
    assert settings.graph_password.get_secret_value() == SECRETS["NEO4J_PASSWORD"]
    assert settings.vector_key.get_secret_value() == SECRETS["QDRANT_API_KEY"]
    assert settings.queue_url.startswith("redis://redis:")
    mounted = [Path(volume.split(":")[1]) for volume in OURS[service]["volumes"]]
    assert any(local_path(settings.blob_url).is_relative_to(folder) for folder in mounted)


def test_the_blob_store_can_be_another_in_the_env_file() -> None:
    for service in OURS.values():
        url = service["environment"]["HELIOGRAPH_BLOB_URL"]
        assert interpolated(url, {"HELIOGRAPH_BLOB_URL": "s3://bucket"}) == "s3://bucket"


def test_the_settings_of_the_image_are_known(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = re.findall(r"(HELIOGRAPH_\w+)=(\S+)", " ".join(instructions("ENV")))
    assert named
    for name, value in named:
        monkeypatch.setenv(name, value)
    assert load().data_dir == Path("/data")


def test_no_secret_is_written_down_and_those_needed_are_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(SECRETS)
    for name in SECRETS:
        assert re.search(rf"^# {name}=$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|KEY|AUTH", variable):
                assert "${" in value, f"{name}: {variable}"


# --- what runs -----------------------------------------------------------------------------------


def test_images_are_pinned() -> None:
    images = [service["image"] for service in SERVICES.values()]
    images += [line.split()[0] for line in instructions("FROM")]
    assert len(images) > len(SERVICES)
    for image in images:
        assert re.search(r":v?\d+\.\d+", image), image


def test_the_images_are_the_versions_that_the_tests_and_the_lock_have() -> None:
    assert SERVICES["neo4j"]["image"] == f"neo4j:{NEO4J_VERSION}-community"
    client = version("qdrant-client").rsplit(".", 1)[0]
    assert SERVICES["qdrant"]["image"].startswith(f"qdrant/qdrant:v{client}.")
    assert {service["image"] for service in OURS.values()} == {f"heliograph:{__version__}"}


def test_the_image_installs_all_that_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert [
        name
        for one in project["dependencies"]
        if (name := re.match(r"[\w-]+", one)[0]) not in locked  # type: ignore[index]
    ] == []


def test_what_is_copied_into_the_image_is_in_its_context_and_nothing_else() -> None:
    ignore = (ROOT / ".dockerignore").read_text().split()
    assert ignore[0] == "*"
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = {
        source.rstrip("/").removeprefix("./")
        for line in instructions("COPY")
        if not line.startswith("--from")
        for source in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for one in SERVICES.values() for port in one.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "ports" not in SERVICES["redis"], "whoever reaches it can hand steps to the workers"


def test_nothing_of_ours_runs_as_root() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instructions("USER")[-1])
    assert DOCKERFILE.rindex("\nUSER ") > DOCKERFILE.rindex("\nRUN ")
    for service in OURS.values():
        assert "user" not in service
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_every_service_has_a_limit_of_memory_and_a_probe_or_none_on_purpose() -> None:
    assert instructions("HEALTHCHECK")
    unprobed = set()
    for name, service in SERVICES.items():
        assert size(service["mem_limit"]) >= 512, name
        probe = service.get("healthcheck", {"test": "of the image"} if name in OURS else {})
        assert bool(probe.get("test")) != bool(probe.get("disable")), name
        if probe.get("disable"):
            unprobed.add(name)
    assert unprobed == {"migrate", "worker"}


def test_a_worker_has_room_for_two_files_at_their_limit() -> None:
    own = 512  # MiB; measured: 460 with everything loaded
    assert size(SERVICES["worker"]["mem_limit"]) >= own + 2 * Options().parse_memory_mb


def test_services_wait_for_what_they_need() -> None:
    probed = {name for name, one in SERVICES.items() if "test" in one.get("healthcheck", {})}
    for name in OURS:
        waits = SERVICES[name]["depends_on"]
        for other, how in waits.items():
            expected = "service_healthy" if other in probed else "service_completed_successfully"
            assert how["condition"] == expected, f"{name} on {other}"
        assert name == "migrate" or set(waits) == {"migrate", "neo4j", "qdrant", "redis"}
    assert SERVICES["migrate"]["restart"] == "no"
    for name in set(SERVICES) - {"migrate"}:
        assert SERVICES[name]["restart"] == "unless-stopped", name


def test_what_must_last_is_in_a_named_volume() -> None:
    used = {v.split(":")[0] for one in SERVICES.values() for v in one.get("volumes", [])}
    assert used == set(COMPOSE["volumes"]) == {"originals", "neo4j", "qdrant", "redis"}


# --- commands ------------------------------------------------------------------------------------


def run(*command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=environment(**settings), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def environment(**settings: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    own = {PREFIX + name: value for name, value in settings.items()}
    return {**inherited, "PYTHONPATH": str(ROOT), **own}


def commands() -> dict[str, list[str]]:
    """The commands of image and services that serve or work, without `python`."""
    found = {"api": yaml.safe_load(instructions("CMD")[-1])}
    found |= {name: one["command"] for name, one in OURS.items() if "command" in one}
    assert {name: command[0] for name, command in found.items()} == dict.fromkeys(OURS, "python")
    return {name: command[1:] for name, command in found.items()}


@pytest.mark.parametrize("service", ["api", "worker"])
def test_a_process_of_its_own_refuses_a_queue_that_no_other_reaches(
    service: str, bare: Path
) -> None:
    done = run(*commands()[service])
    assert done.returncode == 1
    assert "HELIOGRAPH_QUEUE_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_without_its_queue_ends_with_a_sentence(bare: Path) -> None:
    done = run(*commands()["worker"], QUEUE_URL=f"redis://127.0.0.1:{free_port()}/0")
    assert done.returncode == 1
    assert "queue server is away" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_the_migration_runs_once_and_then_has_nothing_to_do(bare: Path) -> None:
    first, second = (run(*commands()["migrate"]) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    assert "applied" in first.stdout
    assert "up to date" in second.stdout


def test_the_api_serves_the_world_only_once_there_is_a_key(bare: Path) -> None:
    port = free_port()
    with valkey_server() as queue:
        settings = {"HOST": "0.0.0.0", "PORT": str(port), "QUEUE_URL": queue.url}
        refused = run(*commands()["api"], **settings)
        assert refused.returncode == 1
        assert "no API key" in refused.stderr.splitlines()[-1]
        assert "Traceback" not in refused.stderr
        made = run("-m", "app.cli", "keys", "create", "--scope", "admin", **settings)
        assert made.returncode == 0, made.stderr
        process = subprocess.Popen(
            [sys.executable, *commands()["api"]], env=environment(**settings),
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            assert any("running on" in line for line in process.stderr), "it ended"
            assert status(f"http://127.0.0.1:{port}/healthz") == 200
            assert status(f"http://127.0.0.1:{port}/documents") == 401
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(60) == 0, rest
            assert "Traceback" not in rest
        finally:
            process.kill()
            process.communicate()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
