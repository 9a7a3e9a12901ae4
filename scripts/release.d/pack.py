"""Packs the tree that scripts/wheel has made as a tarball, a deb and an rpm, the same bytes each time.

usage: pack.py PROCESSOR TREE WORK OUT CARGO-GENERATE-RPM

PROCESSOR is what the tree is for, x86_64 or aarch64. WORK is a directory for what is made on the way. In all of them the files have the tree's places, below / of the tarball's
one directory or below /usr; what Debian wants elsewhere is in `debian`.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Dict

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
GLIBC = "2.17"


def files(tree: Path) -> Dict[str, Path]:
    return {str(path.relative_to(tree)): path for path in sorted(tree.rglob("*")) if path.is_file()}


def mode(name: str) -> int:
    return 0o755 if name.startswith("bin/") else 0o644


def package() -> Dict[str, str]:
    told = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], stdout=subprocess.PIPE, check=True)
    return next(package for package in json.loads(told.stdout)["packages"] if package["name"] == "cupeer")


def tarball(about: Dict[str, str], processor: str, tree: Path, out: Path) -> None:
    stem = f"cupeer-{about['version']}-{processor}-linux"
    with (out / f"{stem}.tar.gz").open("wb") as file:
        with gzip.GzipFile("", "wb", 9, file, EPOCH) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            for name, path in files(tree).items():
                entry = tarfile.TarInfo(f"{stem}/{name}")
                entry.size, entry.mode, entry.mtime = path.stat().st_size, mode(name), EPOCH
                entry.uname = entry.gname = "root"
                with path.open("rb") as content:
                    archive.addfile(entry, content)


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def debian(about: Dict[str, str], tree: Path) -> Dict[str, bytes]:
    """The files of the deb below /usr: as Debian's policy has them where that differs."""
    made = {}
    for name, path in files(tree).items():
        content = path.read_bytes()
        if name.startswith("share/man/"):
            name, content = f"{name}.gz", zipped(content)
        elif name.endswith("/CHANGELOG.md"):
            name, content = "share/doc/cupeer/changelog.gz", zipped(content)
        made[name.replace("/site-functions/", "/vendor-completions/")] = content
    made["share/doc/cupeer/copyright"] = f"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: cupeer
Source: {about["repository"]}
Comment: COPYRIGHT-library.html and THIRD-PARTY.txt beside this file have the licences of all that is linked in.

Files: *
Copyright: the authors of cupeer
License: MIT or Apache-2.0
 The full texts are in LICENSE-MIT and LICENSE-APACHE beside this file.
""".encode()
    return made


def deb(about: Dict[str, str], processor: str, tree: Path, work: Path, out: Path) -> None:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[processor]
    root = work / "deb"
    shutil.rmtree(root, ignore_errors=True)
    contents = debian(about, tree)
    for name, content in contents.items():
        path = root / "usr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode(name))
    control = root / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text(f"""\
Package: cupeer
Version: {about["version"]}
Architecture: {architecture}
Maintainer: the authors of cupeer <{about["repository"]}/issues>
Installed-Size: {sum(map(len, contents.values())) // 1024}
Depends: libc6 (>= {GLIBC}), libgcc-s1 | libgcc1
Section: devel
Priority: optional
Homepage: {about["repository"]}
Description: {about["description"][0].lower() + about["description"][1:]}
 cupeer records, checks and fails the calls by which CUDA programs reach each
 other's device memory. A simulated driver for machines without a GPU comes
 with it.
""")
    for path in [*root.rglob("*"), root]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, out / f"cupeer_{about['version']}_{architecture}.deb"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def rpm(about: Dict[str, str], processor: str, tree: Path, work: Path, out: Path, generate: str) -> None:
    def asset(name: str, path: Path) -> str:
        doc = ", doc = true" if name.startswith(("share/man/", "share/doc/")) else ""
        return f'{{ source = "{path}", dest = "/usr/{name}", mode = "{mode(name):o}"{doc} }}'

    assets = ",\n".join(asset(name, path) for name, path in files(tree).items())
    written = work / "rpm.toml"
    written.write_text(f"""\
summary = "{about["description"]}"
license = "{about["license"]}"
url = "{about["repository"]}"
# What the libraries need is in every system that has glibc {GLIBC}.
auto-req = "disabled"
requires = {{ glibc = ">= {GLIBC}" }}
assets = [{assets}]
""")
    options = ["--metadata-overwrite", written, "--source-date", str(EPOCH), "--payload-compress", "xz", "--arch", processor]
    subprocess.run([generate, "generate-rpm", *options, "--output", out], stdout=subprocess.DEVNULL, check=True)


def main(processor: str, tree: Path, work: Path, out: Path, generate: str) -> None:
    about = package()
    work.mkdir(parents=True, exist_ok=True)
    tarball(about, processor, tree, out)
    deb(about, processor, tree, work, out)
    rpm(about, processor, tree, work, out, generate)
    shutil.copy(tree / "share/doc/cupeer/cupeer.cdx.json", out / f"cupeer-{about['version']}-{processor}.cdx.json")


main(sys.argv[1], *map(Path, sys.argv[2:5]), sys.argv[5])
