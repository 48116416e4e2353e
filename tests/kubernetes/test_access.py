"""How an API server is found, before anybody speaks to it."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
import yaml

from dovetail.core.errors import BadInput
from dovetail.worlds.kubernetes.client import Api, ApiError, Unreachable
from dovetail.worlds.kubernetes.config import find_access, from_kubeconfig

CONFIG = {
    "current-context": "here",
    "contexts": [
        {"name": "here", "context": {"cluster": "one", "user": "ann", "namespace": "team-a"}},
        {"name": "there", "context": {"cluster": "two", "user": "bob"}},
    ],
    "clusters": [
        {"name": "one", "cluster": {"server": "http://127.0.0.1:1"}},
        {"name": "two", "cluster": {"server": "https://there.example/k8s/c-1/"}},
    ],
    "users": [
        {"name": "ann", "user": {"token": "very-secret"}},
        {"name": "bob", "user": {}},
    ],
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONFIG))
    return path


def test_the_current_context_is_taken_unless_another_is_named(kubeconfig: Path) -> None:
    here, there = from_kubeconfig(kubeconfig), from_kubeconfig(kubeconfig, "there")
    assert (here.server, here.namespace) == ("http://127.0.0.1:1", "team-a")
    assert (there.server, there.namespace) == ("https://there.example:443/k8s/c-1", "default")


def test_a_context_that_is_not_there_is_answered_with_those_that_are(kubeconfig: Path) -> None:
    with pytest.raises(BadInput, match="no context 'nowhere'; it has here, there"):
        from_kubeconfig(kubeconfig, "nowhere")


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read the kubeconfig .*--kubeconfig"):
        find_access(str(tmp_path / "absent"))


def test_what_is_no_kubeconfig_is_not_quoted(tmp_path: Path) -> None:
    """It may hold a token."""
    path = tmp_path / "config"
    path.write_text("token: {very-secret")
    with pytest.raises(BadInput) as caught:
        from_kubeconfig(path)
    assert "secret" not in str(caught.value)


def test_nobody_who_prints_the_access_sees_the_token(kubeconfig: Path) -> None:
    access = from_kubeconfig(kubeconfig)
    assert "very-secret" not in repr(access)
    assert access.headers() == {"Authorization": "Bearer very-secret"}


def test_a_server_that_is_not_there_is_told_in_one_line_without_the_token(kubeconfig: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        Api(from_kubeconfig(kubeconfig)).get("/api/v1/nodes")
    assert str(caught.value).startswith("the API server http://127.0.0.1:1 cannot be reached: ")
    assert "very-secret" not in str(caught.value)


def test_a_program_that_gives_tokens_is_asked_once_until_they_expire(tmp_path: Path) -> None:
    told = '{"status": {"token": "t-1", "expirationTimestamp": "2999-01-01T00:00:00Z"}}'
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho '{told}'\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({**CONFIG, "users": [{"name": "ann", "user": user}]}))
    access = from_kubeconfig(path)
    for _ in range(2):
        assert access.headers() == {"Authorization": "Bearer t-1"}
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.parametrize("token", ["very-\nsecret", "very-\x00secret", "sécret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_quoted(tmp_path: Path, token: str) -> None:
    """The library that would send it raises an error that quotes it."""
    path = tmp_path / "config"
    for user in ({"token": token}, {"tokenFile": "token"}):
        (tmp_path / "token").write_text(token)
        path.write_text(yaml.safe_dump({**CONFIG, "users": [{"name": "ann", "user": user}]}))
        with pytest.raises(BadInput, match="holds characters that no token has") as caught:
            Api(from_kubeconfig(path)).get("/api/v1/nodes")
        assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../secrets", "a?b", "a#b", "a b", "", ".", "..", "%2e%2e", "a\r\nHost: b"]
)
def test_no_name_leads_to_another_path_of_the_server(kubeconfig: Path, name: str) -> None:
    with pytest.raises(ApiError, match="no path of the API server"):
        Api(from_kubeconfig(kubeconfig)).get(f"/api/v1/namespaces/{name}/pods")


def _with_authority(folder: Path, text: str) -> Path:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": text}
    path = folder / "config"
    path.write_text(yaml.safe_dump(CONFIG | {"clusters": [{"name": "one", "cluster": cluster}]}))
    return path


def test_a_cluster_with_an_authority_of_its_own_is_known_by_that_alone(tmp_path: Path) -> None:
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ours"]
    words += ["-keyout", str(tmp_path / "key")]
    made = subprocess.run(words, capture_output=True, check=True).stdout
    access = from_kubeconfig(_with_authority(tmp_path, base64.encodebytes(made).decode()))
    assert access.tls is not None
    assert len(access.tls.get_ca_certs()) == 1


@pytest.mark.parametrize("text", ["%%%", base64.b64encode(b"no certificate").decode()])
def test_an_authority_that_is_none_is_refused_and_nobody_else_is_trusted(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(BadInput, match="certificate-authority"):
        from_kubeconfig(_with_authority(tmp_path, text))
