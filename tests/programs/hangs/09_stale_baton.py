"""Four ranks build the same extension; the one which makes the lock file first builds, the others look until
the file is gone. The builder is killed, the file stays; the launcher waits for rank 0 and reaps nobody.
After https://github.com/pytorch/pytorch/issues/189245 (cpp_extension: stale FileBaton lock)
and https://github.com/NVlabs/nvdiffrast/issues/190."""
import os
import signal
import subprocess
import sys
import tempfile
import time


class FileBaton:
    def __init__(self, path):
        self.path = path

    def try_acquire(self):
        try:
            self.fd = os.open(self.path, os.O_CREAT | os.O_EXCL)
            return True
        except FileExistsError:
            return False

    def wait(self):
        while os.path.exists(self.path):
            time.sleep(0.1)

    def release(self):
        os.close(self.fd)
        os.remove(self.path)


def run_ninja():
    time.sleep(0.4)
    os.kill(os.getpid(), signal.SIGKILL)


def load_extension(build_dir):
    baton = FileBaton(os.path.join(build_dir, "lock"))
    if baton.try_acquire():
        try:
            run_ninja()
        finally:
            baton.release()
    else:
        baton.wait()


def main():
    signal.alarm(120)
    build = tempfile.mkdtemp(prefix="hang_torch_extensions_")
    procs = []
    for r in range(4):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="4", EXT_DIR=build)
        procs.append(subprocess.Popen([sys.executable, __file__], env=env))
    for p in procs:
        p.wait()


if __name__ == "__main__":
    if "RANK" in os.environ:
        signal.alarm(120)
        if os.environ["RANK"] != "1":
            time.sleep(0.25)
        load_extension(os.environ["EXT_DIR"])
    else:
        main()
