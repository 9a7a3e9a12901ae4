# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Cupeer(Package):
    """cupeer is a debugging tool for CUDA programs that share GPU memory. It
    records and checks calls of peer access, IPC, virtual memory, memory pools,
    and multicast, and makes them fail on purpose."""

    homepage = "https://github.com/cupeer/cupeer"
    git = "https://github.com/cupeer/cupeer.git"

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.93:", type="build")

    requires("platform=linux")
    requires("target=x86_64:", "target=aarch64:", policy="one_of")

    def setup_build_environment(self, env):
        # The libraries are beside the command, in lib/cupeer.
        env.set("CUPEER_EMBED", "0")

    def install(self, spec, prefix):
        packages = ["cupeer", "cupeer-preload", "cupeer-sim"]
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", *[f"--package={name}" for name in packages])
        built = join_path("target", "release")
        mkdirp(prefix.bin, prefix.lib.cupeer, prefix.include)
        install(join_path(built, "cupeer"), prefix.bin)
        install(join_path(built, "libcupeer*.so"), prefix.lib.cupeer)
        install(join_path("include", "cupeer.h"), prefix.include)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        cupeer = Executable(self.prefix.bin.cupeer)
        cupeer("run", "--sim", "--record", "off", "--", "true")
