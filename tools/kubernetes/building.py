"""The programs of Kubernetes, built from Debian's source package by Debian's Go: once, into the cache.

Cloud providers and the Docker shim are left out, which halves the work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.kubernetes import needs

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
_PACKAGE = "k8s.io/kubernetes"
_VENDOR = "vendor/k8s.io"
_TAGS = "providerless,dockerless"
_DESCRIBED = (  # whose types the API server describes in OpenAPI
    "api",
    "apiextensions-apiserver/pkg/apis",
    "apimachinery/pkg",
    "kube-aggregator/pkg/apis",
)
_ZERO_IS_NULL = " || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data))"
_UNUSED = ("test", "docs", "CHANGELOG", "api", "translations", "cluster", "LICENSES")


def build(say: Callable[[str], None] = print) -> Path:
    """The folder of the programs; they are built if they are not there, by one of those who ask."""
    bin_folder = needs.cache() / "bin"
    if needs.is_built():
        return bin_folder
    with needs.locked("build", say):
        if not needs.is_built():
            _build(bin_folder, say)
    return bin_folder


def _build(bin_folder: Path, say: Callable[[str], None]) -> None:
    missing = needs.packages()
    if missing:
        raise needs.Missing(f"not all programs are here: apt-get install {' '.join(missing)}")
    began = time.monotonic()
    say(f"building Kubernetes {needs.VERSION} into {needs.cache()}, once: a few minutes")
    work = needs.cache() / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tree = _unpack(_download(work, say), work)
    _mend(tree)
    _describe(tree, work, say)
    _compile(tree, work, bin_folder, say)
    shutil.rmtree(work, ignore_errors=True)
    say(f"built in {time.monotonic() - began:.0f} s")


def _download(work: Path, say: Callable[[str], None]) -> Path:
    """By apt, which checks signatures; with a list of its own, made of the machine's own sources."""
    say("- Debian's source package (35 MB)")
    (work / "lists" / "partial").mkdir(parents=True)
    wanted = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    known = _run(["apt-get", "indextargets", "--format", wanted, "Created-By: Packages"], work)
    debian = [line.split() for line in known.splitlines() if "debian" in line]
    sources = [f"deb-src {' '.join(words)}\n" for words in debian if words[-1] == "main"]
    (work / "sources.list").write_text("".join(dict.fromkeys(sources)))
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={work}/sources.list"]
    apt += ["-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={work}/lists"]
    apt += ["-o", "APT::Sandbox::User=root"]
    _run([*apt, "update"], work)
    _run([*apt, "source", "--download-only", "kubernetes"], work)
    return next(work.glob("kubernetes_*.orig.tar.gz"))


def _unpack(archive: Path, work: Path) -> Path:
    """As Go wanted it before there were modules: below a folder named as the package is."""
    unused = [f"--exclude=kubernetes-*/{name}" for name in _UNUSED]
    _run(["tar", "-xzf", str(archive), "--anchored", "--no-wildcards-match-slash", *unused], work)
    tree = work / "go" / "src" / _PACKAGE
    tree.parent.mkdir(parents=True)
    next(work.glob("kubernetes-*/")).rename(tree)
    return tree


def _mend(tree: Path) -> None:
    """Under Go 1.18 and later the vendored reflect2 crashes at the first custom resource, and an empty
    string is taken for null where one is checked against its schema."""
    for package in ("k8s.io/kube-openapi/pkg/validation", "github.com/go-openapi"):
        file = tree / "vendor" / package / "validate/type.go"
        file.write_text(file.read_text().replace(_ZERO_IS_NULL, ""))
    old = tree / "vendor/github.com/modern-go/reflect2"
    for file in [*old.glob("*.go"), *old.glob("*.s")]:
        file.unlink()
    for file in [*Path(needs.REFLECT).glob("*.go"), *Path(needs.REFLECT).glob("*.s")]:
        if not file.name.endswith("_test.go"):
            shutil.copy(file, old)


def _describe(tree: Path, work: Path, say: Callable[[str], None]) -> None:
    """The one file of Go that is generated and not in the package."""
    say("- the description of the API")
    generator = work / "openapi-gen"
    _go(tree, work, ["-o", str(generator), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"])
    found = _run(
        ["grep", "-rl", "--include=*.go", "+k8s:openapi-gen=", *_DESCRIBED], tree / _VENDOR
    )
    files = [Path(line) for line in found.splitlines() if "test" not in line]
    folders = sorted({f"{_PACKAGE}/{_VENDOR}/{file.parent}" for file in files})
    command = [str(generator), "--logtostderr", "-i", ",".join(folders)]
    command += ["-p", f"{_PACKAGE}/pkg/generated/openapi", "-O", "zz_generated.openapi"]
    command += ["-h", "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"]
    command += ["-r", str(work / "violations"), "-o", str(work / "go" / "src")]
    _run(command, tree, _environment(work))


def _compile(tree: Path, work: Path, bin_folder: Path, say: Callable[[str], None]) -> None:
    say("- the programs: " + ", ".join(PROGRAMS))
    places = [
        f"{_PACKAGE}/{_VENDOR}/{name}"
        for name in ("component-base/version", "client-go/pkg/version")
    ]
    major, minor, _ = needs.VERSION.split(".")
    facts = {"gitVersion": f"v{needs.VERSION}", "gitMajor": major, "gitMinor": minor}
    stamps = [f"-X {place}.{name}={value}" for place in places for name, value in facts.items()]
    shutil.rmtree(bin_folder, ignore_errors=True)
    bin_folder.mkdir()
    programs = [f"./cmd/{name}" for name in PROGRAMS]
    _go(
        tree, work, ["-ldflags", " ".join(["-s", "-w", *stamps]), "-o", f"{bin_folder}/", *programs]
    )
    (bin_folder / "complete").touch()


def _go(tree: Path, work: Path, arguments: Sequence[str]) -> None:
    _run([needs.GO, "build", "-tags", _TAGS, *arguments], tree, _environment(work))


def _environment(work: Path) -> dict[str, str]:
    ours = {"GOPATH": str(work / "go"), "GOCACHE": str(work / "cache"), "GO111MODULE": "off"}
    ours |= {"GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0", "GOTMPDIR": str(work)}
    return {**os.environ, **ours, "PATH": f"{Path(needs.GO).parent}:{os.environ['PATH']}"}


def _run(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise needs.Missing(
            f"{Path(command[0]).name} failed while Kubernetes was built: {' '.join(last)}"
        )
    return done.stdout
