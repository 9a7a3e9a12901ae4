"""The manager reads the standard output of a build to its end before it looks at the standard error; the build
writes more warnings than the pipe of the standard error takes. A scheduler waits for the manager.
After https://github.com/zeek/package-manager/issues/198 (Popen used in a way that may cause deadlock)."""
import multiprocessing as mp
import signal
import subprocess
import sys


def compile_unit(n):
    for i in range(40):
        sys.stderr.write(f"unit {n}: warning: unused variable v{i} [-Wunused-variable]\n")
    sys.stdout.write(f"unit {n} ok\n")


def build():
    signal.alarm(120)
    for n in range(1000):
        compile_unit(n)


def build_package():
    proc = subprocess.Popen([sys.executable, __file__, "--build"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = proc.stdout.read()
    err = proc.stderr.read()
    return out, err, proc.wait()


def manager(report):
    signal.alarm(120)
    out, err, rc = build_package()
    report.send(rc)


def scheduler():
    signal.alarm(120)
    mp.set_start_method("fork")
    here, there = mp.Pipe()
    p = mp.Process(target=manager, args=(there,), name="manager")
    p.start()
    there.close()
    rc = here.recv()
    p.join()
    return rc


if __name__ == "__main__":
    if "--build" in sys.argv:
        build()
    else:
        sys.exit(scheduler())
