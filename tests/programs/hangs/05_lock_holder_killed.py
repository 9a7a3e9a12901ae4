"""Three workers take turns at a ring buffer under one multiprocessing.Lock. One of them is killed
(as the OOM killer does) while it has the lock; a multiprocessing.Lock is a semaphore and is never released.
After https://github.com/birdnet-team/birdnet/issues/73."""
import multiprocessing as mp
import os
import signal
import time


def oom_victim(batch):
    if batch == 3:
        os.kill(os.getpid(), signal.SIGKILL)


def worker(idx, ring_lock, results):
    signal.alarm(120)
    for batch in range(1000):
        with ring_lock:
            if idx == 1:
                oom_victim(batch)
            time.sleep(0.005)
        results.put((idx, batch))
        time.sleep(0.01)


def main():
    signal.alarm(120)
    ring_lock = mp.Lock()
    results = mp.Queue()
    procs = [mp.Process(target=worker, args=(i, ring_lock, results), name=f"worker-{i}") for i in range(3)]
    for p in procs:
        p.start()
    done = 0
    while done < 3000:
        results.get()
        done += 1


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
