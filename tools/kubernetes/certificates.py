"""Who is who in a test cluster: an authority of its own, and a certificate for each part."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_CONFIG = "[req]\ndistinguished_name = name\n[name]\n"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650")


class Authority:
    """Its folder holds ca.crt, and NAME.crt and NAME.key of whoever has been made known."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def make(self) -> None:
        self.folder.mkdir(parents=True, mode=0o700)
        (self.folder / "config").write_text(_CONFIG)
        subject = ("-subj", "/CN=dovetail-test", "-addext", "basicConstraints=critical,CA:TRUE")
        self._request("ca", subject)
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")

    def server(self, name: str, hosts: Sequence[str]) -> None:
        kinds = (f"{'IP' if host[0].isdigit() else 'DNS'}:{host}" for host in hosts)
        self._leaf(name, f"/CN={name}", "serverAuth", f"subjectAltName={','.join(kinds)}")

    def client(self, name: str, user: str, group: str = "") -> None:
        subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
        self._leaf(name, subject, "clientAuth")

    def kubeconfig(self, name: str, server: str) -> str:
        """For the client of that name; it needs no other file."""
        user = {"client-certificate-data": f"{name}.crt", "client-key-data": f"{name}.key"}
        cluster = {"server": server, "certificate-authority-data": self._text("ca.crt")}
        context = {"cluster": "test", "user": name}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [
                    {"name": name, "user": {key: self._text(file) for key, file in user.items()}}
                ],
                "contexts": [{"name": "test", "context": context}],
                "current-context": "test",
            },
            indent=1,
        )

    def _text(self, file: str) -> str:
        return base64.b64encode((self.folder / file).read_bytes()).decode()

    def _leaf(self, name: str, subject: str, usage: str, *extensions: str) -> None:
        wanted = ["basicConstraints=CA:FALSE", f"extendedKeyUsage={usage}", *extensions]
        options = ["-CA", "ca.crt", "-CAkey", "ca.key", "-subj", subject]
        for extension in wanted:
            options += ["-addext", extension]
        self._request(name, options)

    def _request(self, name: str, options: Sequence[str]) -> None:
        files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
        self._openssl("req", "-x509", "-config", "config", *_KEY, *files, *options)

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)
