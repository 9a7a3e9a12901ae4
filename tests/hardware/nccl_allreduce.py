"""An all-reduce of NCCL over two ranks, one process and one GPU a rank."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number, ranks):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    os.environ["RANK"] = str(number)
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=ranks)
    tensor = torch.full((1 << 20,), float(number + 1), device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    with open(os.path.join(os.environ["RESULTS"], str(number)), "w") as file:
        print("rank", number, "sum", float(tensor.min()), float(tensor.max()), file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, args=(2,), nprocs=2)
    for number in range(2):
        print(open(os.path.join(os.environ["RESULTS"], str(number))).read().strip())
