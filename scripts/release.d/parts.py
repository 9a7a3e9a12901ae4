"""Writes what is linked into the command and its libraries: licences as a text, and all of it as an SBOM (CycloneDX).

usage: parts.py DIRECTORY TARGET [ZIG]

It is what cargo says of the crates for TARGET, what these carry of others in folders called vendor, whose parts.json says what it is,
Rust's standard library of $RUSTC, and of ZIG, the directory of Python's package ziglang, what zig links into programs. The
same bytes each time.
"""

import hashlib
import html
import json
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any, Dict, List, Tuple

RUSTC = os.environ.get("RUSTC", "rustc")
SHIPPED = ("cupeer", "cupeer-preload", "cupeer-sim")
# What crates call such files, in any case.
NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
# The two that crates may leave out, because everybody knows them.
USUAL = {"Apache-2.0": Path("LICENSE-APACHE"), "MIT": Path("LICENSE-MIT")}


def said(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def linked(target: str) -> Dict[str, Dict[str, Any]]:
    """The packages whose code is in what is shipped, with the ids of those that each uses."""
    told = json.loads(said("cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"))
    packages = {package["id"]: package for package in told["packages"]}
    uses = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    # These run in the compiler.
    is_macro = {id for id, package in packages.items() if any("proc-macro" in target["kind"] for target in package["targets"])}
    found: Dict[str, Dict[str, Any]] = {}
    ahead = [id for id, package in packages.items() if package["name"] in SHIPPED]
    while ahead:
        id = ahead.pop()
        if id in found:
            continue
        used = [dep["pkg"] for dep in uses[id] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        found[id] = {**packages[id], "uses": sorted(set(used) - is_macro)}
        ahead += found[id]["uses"]
    return dict(sorted(found.items(), key=lambda item: (item[1]["name"], item[1]["version"])))


def texts_of(package: Dict[str, Any]) -> List[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(NAMES))
    if not files:
        files = [path for name, path in USUAL.items() if name in (package["license"] or "")][:1]
    if not files:
        sys.exit(f"parts.py: {package['name']} {package['version']} ({package['license']}) has no text of its licence")
    return [path.read_text(errors="replace").strip() for path in files]


def vendored() -> List[Dict[str, str]]:
    """What parts.json of each folder called vendor has, with the folder's path; all that lies there must be in it."""
    found = []
    for folder in sorted(Path("src").rglob("vendor")):
        parts: List[Dict[str, str]] = json.loads((folder / "parts.json").read_text())
        licences = {part["text"] for part in parts}
        for path in sorted(folder.iterdir()):
            if path.name in {"README.md", "parts.json"} | licences:
                continue
            part = next((part for part in parts if part["file"] == path.name), None)
            if part is None:
                sys.exit(f"parts.py: {path} is not in parts.json, so there is no text of its licence")
            if hashlib.sha256(path.read_bytes()).hexdigest() != part["sha256"]:
                sys.exit(f"parts.py: {path} is not what parts.json says, {part['name']} {part['version']}")
            if not (folder / part["text"]).read_text().strip():
                sys.exit(f"parts.py: {folder / part['text']} has no text")
            found.append({**part, "folder": str(folder)})
    return found


def standard_library() -> Tuple[List[str], bytes]:
    """The licences of Rust's, and the page that names those of its parts: as Rust gives it out, or as Debian does."""
    rust = Path(said(RUSTC, "--print", "sysroot").strip(), "share/doc/rust")
    if (rust / "COPYRIGHT-library.html").exists():
        texts = [(rust / "licenses" / f"{name}.txt").read_text() for name in ("Apache-2.0", "MIT")]
        return [text.strip() for text in texts], (rust / "COPYRIGHT-library.html").read_bytes()
    found = sorted(Path("/usr/share/doc").glob("libstd-rust*-dev/copyright"))
    if not found:
        sys.exit(f"parts.py: there are no licences of the standard library of {RUSTC} in {rust}")
    text = found[-1].read_text()
    # The same texts, whoever's they stand beside.
    texts = [USUAL[name].read_text().strip() for name in ("Apache-2.0", "MIT")]
    page = f"<!DOCTYPE html>\n<meta charset=utf-8>\n<title>Copyright of Rust's standard library</title>\n<pre>{html.escape(text)}</pre>\n"
    return texts, page.encode()


def licences(packages: List[Dict[str, Any]], zig: List[str]) -> str:
    owners: Dict[str, List[str]] = {}
    for package in packages:
        for text in texts_of(package):
            owners.setdefault(text, []).append(f"{package['name']} {package['version']} ({package['license']})")
    for part in vendored():
        text = Path(part["folder"], part["text"]).read_text().strip()
        owners.setdefault(text, []).append(f"{part['name']} {part['version']} ({part['license']}), in the pages that the command makes")
    version = said(RUSTC, "--version").split()[1]
    for text in standard_library()[0]:
        owners.setdefault(text, []).append(f"the standard library of Rust {version} (MIT OR Apache-2.0), which names its parts in COPYRIGHT-library.html")
    for folder in zig:
        for name, what in (("LICENSE", "zig's compiler-rt"), ("lib/libunwind/LICENSE.TXT", "LLVM's libunwind, as zig links it")):
            owners.setdefault(Path(folder, name).read_text().strip(), []).append(what)
    head = "The command cupeer and its libraries contain code of others, under these licences.\n"
    rule = "=" * 80
    return head + "".join(f"\n{rule}\n" + "".join(f"{owner}\n" for owner in names) + f"{rule}\n\n{text}\n" for text, names in owners.items())


def owner(packages: Dict[str, Dict[str, Any]], folder: Path) -> str:
    """The crate in which a folder lies, the innermost."""
    crates = {Path(package["manifest_path"]).parent: id for id, package in packages.items()}
    return next(crates[above] for above in folder.resolve().parents if above in crates)


def sbom(packages: Dict[str, Dict[str, Any]], epoch: str) -> str:
    lock = Path("Cargo.lock").read_text()
    sums = {found[:2]: found[2] for found in re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"', lock)}
    purl = {id: f"pkg:cargo/{package['name']}@{package['version']}" for id, package in packages.items()}

    def component(id: str, kind: str = "library") -> Dict[str, Any]:
        package = packages[id]
        made: Dict[str, Any] = {"type": kind, "bom-ref": purl[id], "name": package["name"], "version": package["version"]}
        if checksum := sums.get((package["name"], package["version"])):
            made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        # What came before SPDX's OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        made["purl"] = purl[id]
        return made

    own = next(id for id, package in packages.items() if package["name"] == "cupeer")
    uses = {purl[id]: {purl[used] for used in package["uses"]} for id, package in packages.items()}
    # The libraries are given out with it.
    uses[purl[own]] |= {purl[id] for id, package in packages.items() if package["name"] in SHIPPED and id != own}
    others = []
    for part in vendored():
        name = f"pkg:npm/{urllib.parse.quote(part['name'])}@{part['version']}"
        made = {"type": "library", "bom-ref": name, "name": part["name"], "version": part["version"]}
        hashes = [{"alg": "SHA-256", "content": part["sha256"]}]
        others.append({**made, "hashes": hashes, "licenses": [{"expression": part["license"]}], "purl": name})
        uses[purl[owner(packages, Path(part["folder"]))]].add(name)
        uses[name] = set()
    time = said("date", "--utc", f"--date=@{epoch}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time, "component": component(own, "application")},
        "components": [component(id) for id in packages if id != own] + others,
        "dependencies": [{"ref": ref, "dependsOn": sorted(used)} for ref, used in sorted(uses.items())],
    }
    return json.dumps(bom, indent=1) + "\n"


def main(directory: Path, target: str, epoch: str, zig: List[str]) -> None:
    packages = linked(target)
    directory.mkdir(parents=True, exist_ok=True)
    others = [package for package in packages.values() if package["source"]]
    (directory / "THIRD-PARTY.txt").write_text(licences(others, zig))
    (directory / "COPYRIGHT-library.html").write_bytes(standard_library()[1])
    (directory / "cupeer.cdx.json").write_text(sbom(packages, epoch))


main(Path(sys.argv[1]), sys.argv[2], os.environ["SOURCE_DATE_EPOCH"], sys.argv[3:])
