"""Rank 0 decides by its own clock that it is time for a checkpoint and broadcasts the name of it,
the other ranks are in the all_reduce of the gradients.
After https://github.com/speechbrain/speechbrain/issues/2401 (ALLREDUCE against BROADCAST at a checkpoint)
and https://github.com/Lightning-AI/pytorch-lightning/issues/19106."""
import os
import time

import minidist as dist


class Checkpointer:
    def __init__(self, interval):
        self.interval, self.last = interval, time.monotonic()

    def due(self):
        return time.monotonic() - self.last > self.interval

    def save(self, step):
        name = dist.broadcast(f"ckpt-{step}", src=0)
        self.last = time.monotonic()
        return name


def backward(step):
    grad = float(step + dist.rank)
    return dist.all_reduce(grad)


def train():
    ckpt = Checkpointer(0.2 if dist.rank == 0 else 3600)
    for step in range(100000):
        if ckpt.due():
            ckpt.save(step)
        backward(step)
        time.sleep(0.03)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        dist.launch(4)
    else:
        dist.init()
        train()
