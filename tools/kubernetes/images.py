"""Images without a registry: archives as `docker save` writes them, made of this machine's own files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import py_compile
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import cache_from_source
from pathlib import Path, PurePath

PAUSE, DOVETAIL, TORCH = "local/pause:1", "local/dovetail:1", "local/torch:1"
_ROOT = Path(__file__).parents[2]
_SITE = "/opt/site-packages"
_PATH = "/usr/local/bin:/usr/bin:/bin:/sbin"
_APPLETS = ("sh", "sleep", "cat", "ls", "ps", "kill", "env", "id", "touch", "mkdir", "grep", "wget")
_FOLDERS = {"tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755, "etc": 0o755, "root": 0o755}
_FILES = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
_UNUSED = (
    "/site-packages/",
    "/dist-packages/",
    "/config-",
    "/test/",
    "/tests/",
    "/idlelib/",
    "/ensurepip/",
    "/tkinter/",
    "/lib2to3/",
    "/turtledemo/",
)


_COMMAND = """#!/usr/local/bin/python3
import sys
from dovetail.cli.main import main
sys.exit(main())
"""
_Closed = tuple[str, Path]  # a layer's digest, and its archive


class _Layer:
    """One layer of an image: a file of it is put in once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[str] = set()
        self._libraries: set[str] = set()
        self._tar = tarfile.open(path, "w")  # noqa: SIM115

    def close(self) -> _Closed:
        """Its name, which says what is in it."""
        for library in sorted(_linked(self._libraries)):
            self.file(os.path.realpath(library), library)
        self._tar.close()
        with open(self._path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), self._path

    def file(self, source: str | Path, name: str) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        if ".so" in name or os.access(source, os.X_OK):
            self._libraries.add(str(source))
        self._tar.add(source, name.lstrip("/"), recursive=False, filter=_of_root)

    def folder(self, source: Path, name: str) -> None:
        for path, _, files in os.walk(source):
            within = os.path.relpath(path, source)
            if not any(part in f"/{within}/" for part in _UNUSED):
                for each in files:
                    self.module(Path(path, each), os.path.normpath(f"{name}/{within}/{each}"))

    def basis(self) -> None:
        for name, mode in _FOLDERS.items():
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, mode
            self._tar.addfile(made)
        for name, text in _FILES.items():
            self.text(name, text)
        self.file(_busybox(), "/bin/busybox")
        for name in _APPLETS:
            self.link(f"bin/{name}", "busybox")
        self.link("usr/bin/env", "/bin/busybox")  # where scripts look for it

    def text(self, name: str, text: str, mode: int = 0o644) -> None:
        made = tarfile.TarInfo(name)
        made.size, made.mode = len(text.encode()), mode
        self._tar.addfile(made, io.BytesIO(text.encode()))

    def link(self, name: str, target: str) -> None:
        made = tarfile.TarInfo(name)
        made.type, made.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(made)

    def python(self) -> None:
        """The interpreter that runs this, with its library; it finds that beside itself."""
        library = Path(sysconfig.get_path("stdlib"))
        self.file(os.path.realpath(sys.executable), f"/usr/local/bin/{library.name}")
        for name in ("python3", "python"):
            self.link(f"usr/local/bin/{name}", library.name)
        self.folder(library, f"/usr/local/lib/{library.name}")

    def packages(self, names: Iterable[str]) -> None:
        for each in _closure(names):
            for file in each.files or ():
                found = Path(str(each.locate_file(file)))
                if _is_used(file) and found.exists():
                    self.module(found, f"{_SITE}/{file}")

    def module(self, source: Path, name: str) -> None:
        """A module with its bytecode, as pip leaves it in an image: a container without compiles all
        that it imports at each start, which for numpy is four times the work of the import."""
        self.file(source, name)
        if source.suffix == ".py":
            compiled = Path(cache_from_source(str(source)))
            if not compiled.exists():
                py_compile.compile(str(source), quiet=2)
            if compiled.exists():
                self.file(compiled, cache_from_source(name))


def _is_used(file: PurePath) -> bool:
    """Not its tests, and nothing outside the folder of packages."""
    is_within = not file.parts[0].startswith("..")
    return is_within and "tests" not in file.parts and file.name != "direct_url.json"


def _of_root(item: tarfile.TarInfo) -> tarfile.TarInfo:
    item.uid = item.gid = 0
    item.uname = item.gname = ""
    return item


def _busybox() -> str:
    return next(path for path in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(path))


def _linked(files: Iterable[str]) -> set[str]:
    """The system's libraries that these need."""
    told = subprocess.run(["ldd", *sorted(files)], capture_output=True, text=True, check=False)
    found = re.findall(r"(?:=> |^\t)(/\S+) \(0x", told.stdout, re.MULTILINE)
    return {path for path in found if "site-packages" not in path}


def _closure(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """The packages of those names, and all that they need here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    left = list(names)
    while left:
        name = re.split(r"[^A-Za-z0-9._-]", left.pop(), maxsplit=1)[0].lower()
        try:
            found.setdefault(name, importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        needed = found[name].requires or []
        left += [need for need in needed if "extra ==" not in need and need not in found]
    return list(found.values())


def _dovetail_needs() -> list[str]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["live"]]


def _dovetail() -> Iterator[tuple[Path, str]]:
    """The package that would be imported here, and the library beside it if it is compiled."""
    spec = importlib.util.find_spec("dovetail")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    yield package, package.name
    for file in importlib.metadata.distribution("dovetail").files or ():
        found = package.parent / file
        if "__mypyc" in file.name and len(file.parts) == 1 and found.exists():
            yield found, file.name


def make(folder: Path) -> Path:
    """An archive of the image that pods need, and of one with Python, numpy, Dovetail, and our examples
    where they are here."""
    folder.mkdir(parents=True, exist_ok=True)
    pause = _Layer(folder / "pause.tar")
    pause.file(_busybox(), "/bin/busybox")
    python = _Layer(folder / "python.tar")
    python.basis()
    python.file(os.path.realpath("/usr/bin/openssl"), "/usr/bin/openssl")  # makes keys of gateways
    python.python()
    python.packages(_dovetail_needs())
    ours = _Layer(folder / "ours.tar")
    for source, name in _dovetail():
        (ours.folder if source.is_dir() else ours.file)(source, f"{_SITE}/{name}")
    ours.text("usr/local/bin/dovetail", _COMMAND, 0o755)
    ours.folder(_ROOT / "examples", str(_ROOT / "examples"))
    images = {
        PAUSE: (["/bin/busybox", "sleep", "2147483647"], [pause.close()]),
        DOVETAIL: (["python3"], [python.close(), ours.close()]),
    }
    return _archive(folder / "images.tar", images)


def make_small(folder: Path, name: str) -> Path:
    """An archive of an image with a shell and Python alone, for whoever runs containers without
    Kubernetes."""
    folder.mkdir(parents=True, exist_ok=True)
    layer = _Layer(folder / "small.tar")
    layer.basis()
    layer.python()
    return _archive(folder / "image.tar", {name: (["/bin/sh"], [layer.close()])})


def _archive(file: Path, images: Mapping[str, tuple[Sequence[str], Sequence[_Closed]]]) -> Path:
    manifest = []
    with tarfile.open(file, "w") as tar:
        for name, (command, layers) in images.items():
            config = _config(command, [digest for digest, _ in layers])
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _put(tar, config_name, config)
            for digest, path in layers:
                tar.add(path, f"{digest}/layer.tar")
            places = [f"{digest}/layer.tar" for digest, _ in layers]
            manifest.append({"Config": config_name, "RepoTags": [name], "Layers": places})
        _put(tar, "manifest.json", json.dumps(manifest).encode())
    return file


def _config(command: Sequence[str], digests: Sequence[str]) -> bytes:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    env = [f"PATH={_PATH}", f"PYTHONPATH={_SITE}", "PYTHONUNBUFFERED=1"]
    layers = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
    image = {"architecture": machine, "os": "linux", "rootfs": layers}
    return json.dumps({**image, "config": {"Cmd": list(command), "Env": env}}).encode()


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    tar.addfile(made, io.BytesIO(content))
