"""torch_hangs.py WHAT [gloo|nccl]: jobs of PyTorch that hang. RANKS has another number of ranks than 2.

  missing   rank 1 sleeps before a barrier
  apart     rank 0 is in a broadcast, the others are in an all_reduce
  dead      rank 1 exits with an error, the others wait for it
  loader    the worker of rank 0's DataLoader sleeps, the others are in an all_reduce
  groups    rank 0 reduces in one group, the others in another one"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = int(os.environ.get("RANKS", "2"))
FOREVER = 100000


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 2:
            time.sleep(FOREVER)  # stuck
        return torch.ones(1)


def prepare():
    time.sleep(FOREVER)  # late


def reduce(tensor, group=None):
    dist.all_reduce(tensor, group=group)
    return tensor.sum().item()


def train(what, rank, tensor):
    reduce(tensor)
    if what == "missing":
        if rank == 1:
            prepare()
        dist.barrier()
        torch.cuda.is_available() and torch.cuda.synchronize()  # barrier
    elif what == "apart":
        if rank == 0:
            dist.broadcast(tensor, 1)
            tensor.sum().item()
            reduce(tensor)  # rank 0
        reduce(tensor)  # the others
        dist.barrier()
    elif what == "dead":
        if rank == 1:
            os._exit(3)
        reduce(tensor)
    elif what == "loader":
        if rank == 0:
            for _ in torch.utils.data.DataLoader(Slow(), num_workers=1):
                reduce(tensor)
        for _ in range(8):
            reduce(tensor)
    elif what == "groups":
        one, two = dist.new_group(list(range(RANKS))), dist.new_group(list(range(RANKS)))
        if rank == 0:
            reduce(tensor, one)  # group one
        else:
            reduce(tensor, two)  # group two


def run(rank, what, backend):
    os.environ["RANK"] = str(rank)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    device = "cpu"
    if backend == "nccl":
        device = f"cuda:{rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    dist.init_process_group(backend, rank=rank, world_size=RANKS)
    train(what, rank, torch.ones(1 << 20, device=device))
    time.sleep(FOREVER)


if __name__ == "__main__":
    what = sys.argv[1]
    backend = sys.argv[2] if len(sys.argv) > 2 else "gloo"
    context = mp.get_context("spawn")
    ranks = [context.Process(target=run, args=(rank, what, backend)) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    # Nobody looks at how the others end.
    ranks[0].join()
    time.sleep(FOREVER)
