"""Packs what scripts/wheel has built, and the Python module, into a wheel, the same bytes each time, and prints its path.

usage: pack.py DIST TREE [GLIBC]

The command and its libraries may need no glibc later than GLIBC; without it, the wheel is for the one that they do need.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Dict, Optional, Tuple

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

Version = Tuple[int, ...]

# The oldest that manylinux has a name for, and that Rust's standard library runs on.
OLDEST: Version = (2, 17)


def needed_glibc(path: Path) -> Version:
    """The latest glibc whose symbols a program or library needs."""
    needed = [OLDEST]
    with path.open("rb") as file:
        sections = [s for s in ELFFile(file).iter_sections() if isinstance(s, GNUVerNeedSection)]
        if not sections:
            sys.exit(f"scripts/wheel: {path}: no .gnu.version_r, which says what glibc it needs")
        for _, versions in (need for section in sections for need in section.iter_versions()):
            for name in (version.name for version in versions):
                if re.fullmatch(r"GLIBC_[0-9.]+", name):
                    needed.append(tuple(int(part) for part in name[len("GLIBC_") :].split(".")))
                elif name.startswith("GLIBC_"):
                    sys.exit(f"scripts/wheel: {path.name} needs {name}, which has no place among the versions of glibc")
    return max(needed)


def machine(path: Path) -> str:
    """The processor that a program or library is for, as ELF calls it."""
    with path.open("rb") as file:
        return str(ELFFile(file)["e_machine"])


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def readme(repository: str) -> str:
    """The README, whose links to other files lead to the repository."""
    return re.sub(r"\]\((?!https?:|#)", f"]({repository}/blob/main/", Path("README.md").read_text())


def metadata(package: Dict[str, str]) -> str:
    return f"""\
Metadata-Version: 2.4
Name: {package["name"]}
Version: {package["version"]}
Summary: {package["description"]}
License-Expression: {package["license"]}
License-File: COPYRIGHT-library.html
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
License-File: THIRD-PARTY.txt
Project-URL: Source, {package["repository"]}
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Framework :: Pytest
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Classifier: Topic :: Software Development :: Testing
Classifier: Typing :: Typed
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{readme(package["repository"])}"""


def place(path: str, data: str, info: str) -> Optional[str]:
    """Where a file of the tree is in the wheel; None where it is not."""
    name = path.rsplit("/", 1)[-1]
    if path.startswith("bin/"):
        return f"{data}/scripts/{name}"
    if path.startswith("lib/cupeer/"):
        # Not in lib: pip leaves that out where it installs to a --target.
        return f"{data}/data/libexec/cupeer/{name}"
    if path.startswith("share/doc/"):
        folder = "sboms" if name.endswith(".cdx.json") else "licenses"
        return None if name == "CHANGELOG.md" else f"{info}/{folder}/{name}"
    return f"{data}/data/{path}"


def contents(tree: Path, package: Dict[str, str], tag: str) -> Dict[str, Tuple[bytes, int]]:
    """The files of the wheel: bytes and permissions."""
    stem = f"{package['name']}-{package['version']}"
    data, info = f"{stem}.data", f"{stem}.dist-info"
    files = {f"cupeer/{path.name}": path for path in Path("python/cupeer").iterdir() if path.is_file()}
    placed = {place(str(path.relative_to(tree)), data, info): path for path in tree.rglob("*") if path.is_file()}
    files.update({name: path for name, path in placed.items() if name})
    texts = {
        "METADATA": metadata(package),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: cupeer\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": "[pytest11]\ncupeer = cupeer.pytest_plugin\n",
    }
    packed = {name: (path.read_bytes(), 0o755 if name.endswith("/scripts/cupeer") else 0o644) for name, path in files.items()}
    packed.update({f"{info}/{name}": (text.encode(), 0o644) for name, text in texts.items()})
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, (content, _) in sorted(packed.items()))
    packed[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    return packed


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main(dist: Path, tree: Path, most: Optional[str] = None) -> None:
    programs = sorted(tree.glob("bin/*")) + sorted(tree.glob("lib/cupeer/*"))
    needed = {path.name: needed_glibc(path) for path in programs}
    glibc = tuple(int(part) for part in most.split(".")) if most else max(needed.values())
    for name, version in needed.items():
        if version > glibc:
            sys.exit(f"scripts/wheel: {name} needs glibc {dotted(version)}, which is later than {dotted(glibc)}")
    processors = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
    (processor,) = {processors[machine(path)] for path in programs}
    tag = f"py3-none-manylinux_{'_'.join(map(str, glibc))}_{processor}"
    told = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], stdout=subprocess.PIPE, check=True)
    package = next(package for package in json.loads(told.stdout)["packages"] if package["name"] == "cupeer")
    wheel = dist / f"{package['name']}-{package['version']}-{tag}.whl"
    # What a zip file can say: not before 1980.
    date = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # Those about the package come last, as the format of wheels recommends.
        for name, (content, mode) in sorted(contents(tree, package, tag).items(), key=lambda file: (".dist-info/" in file[0], file[0])):
            entry = zipfile.ZipInfo(name, date)
            entry.create_system = 3  # Unix, whose permissions follow: a regular file's.
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
