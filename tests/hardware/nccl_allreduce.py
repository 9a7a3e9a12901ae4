"""An all-reduce of NCCL over two ranks, one process and one GPU a rank.

RANKS has another number of ranks, MIB the size of what is reduced. With ONE_GPU set, each rank sees its own GPU alone."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = int(os.environ.get("RANKS", "2"))
FLOATS = int(os.environ.get("MIB", "4")) << 18


def rank(number, ranks):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    os.environ["RANK"] = str(number)
    if "ONE_GPU" in os.environ:
        # Before anything asks CUDA for its devices.
        os.environ["CUDA_VISIBLE_DEVICES"] = str(number)
        torch.cuda.set_device(0)
    else:
        torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=ranks)
    tensor = torch.full((FLOATS,), float(number + 1), device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    with open(os.path.join(os.environ["RESULTS"], str(number)), "w") as file:
        print("rank", number, "sum", float(tensor.min()), float(tensor.max()), file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, args=(RANKS,), nprocs=RANKS)
    for number in range(RANKS):
        print(open(os.path.join(os.environ["RESULTS"], str(number))).read().strip())
