"""The parent joins a child before it has taken the results of it out of the queue; the child does not end before
its feeder thread has written them to the pipe. A monitor waits for the parent.
After https://github.com/python/cpython/issues/73983 and https://github.com/jonatanjacobsson/ifcpipeline/pull/28."""
import multiprocessing as mp
import signal


def clash_report(results):
    signal.alarm(120)
    results.put(["clash"] * 400000)


def monitor(finished):
    signal.alarm(120)
    finished.wait()


def run_isolated(finished):
    results = mp.JoinableQueue()
    child = mp.Process(target=clash_report, args=(results,), name="ifcclash")
    child.start()
    child.join()
    report = results.get()
    finished.set()
    return len(report)


if __name__ == "__main__":
    signal.alarm(120)
    mp.set_start_method("fork")
    finished = mp.Event()
    mp.Process(target=monitor, args=(finished,), name="monitor").start()
    print(run_isolated(finished))
