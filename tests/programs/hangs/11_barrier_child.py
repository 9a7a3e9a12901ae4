"""Four workers meet in a multiprocessing.Barrier after each epoch; one of them waits for the end of a
command which fetches its data and does not come back.
After https://github.com/dylanyunlon/Neuron_SP/issues/73 (a barrier, two ranks still in the fetch of data)
and https://github.com/huggingface/transformers-bloom-inference/pull/40."""
import multiprocessing as mp
import signal
import subprocess
import time


def fetch_shard(rank, epoch):
    if rank == 2 and epoch == 1:
        cmd = ["sleep", "86400"]
    else:
        cmd = ["true"]
    subprocess.run(cmd, check=True, preexec_fn=lambda: signal.alarm(120))


def train_epoch(rank, epoch, sync):
    fetch_shard(rank, epoch)
    time.sleep(0.02)
    sync.wait()


def worker(rank, sync):
    signal.alarm(120)
    for epoch in range(10):
        train_epoch(rank, epoch, sync)


if __name__ == "__main__":
    signal.alarm(120)
    mp.set_start_method("fork")
    sync = mp.Barrier(4)
    procs = [mp.Process(target=worker, args=(r, sync), name=f"trainer-{r}") for r in range(4)]
    for p in procs:
        p.start()
    for p in procs:
        p.join()
