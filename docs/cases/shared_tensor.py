"""A worker puts a tensor into a queue and ends, while the process that got the tensor still uses it.

torch.multiprocessing sends an IPC handle, not the data: the worker must live until the tensor is no longer used. `FIXED=1`
lets it wait for that.
"""

import os
import sys

import torch
import torch.multiprocessing as mp


def produce(queue, used):
    batch = torch.arange(1 << 20, device="cuda")
    queue.put(batch)
    if os.environ.get("FIXED"):
        used.wait()
    else:
        # The queue has a thread that sends.
        queue.close()
        queue.join_thread()
        os._exit(0)


def main():
    mp.set_start_method("spawn")
    queue, used = mp.Queue(), mp.Event()
    worker = mp.Process(target=produce, args=(queue, used))
    worker.start()
    if not os.environ.get("FIXED"):
        worker.join()
    batch = queue.get()
    print("sum:", int(batch.sum()))
    del batch
    used.set()
    worker.join()


if __name__ == "__main__":
    sys.exit(main())
