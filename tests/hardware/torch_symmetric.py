"""A one-shot all-reduce over PyTorch's symmetric memory, one process and one GPU a rank, without multicast.

MIB is the size of what is reduced, ROUNDS how often."""
import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import torch.multiprocessing as mp

# A program that multicasts can take down GPUs that others use.
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
RANKS = 2
FLOATS = int(os.environ.get("MIB", "4")) << 18
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def rank(number):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29512")
    os.environ["RANK"] = str(number)
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=RANKS)
    tensor = symm_mem.empty(FLOATS, dtype=torch.float32, device=f"cuda:{number}")
    symm_mem.rendezvous(tensor, dist.group.WORLD)
    for turn in range(ROUNDS):
        tensor.fill_(float(number + 1 + turn))
        total = torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", dist.group.WORLD.group_name)
        torch.cuda.synchronize()
    with open(os.path.join(os.environ["RESULTS"], f"symmetric{number}"), "w") as file:
        print("rank", number, "sum", float(total.min()), float(total.max()), file=file)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, nprocs=RANKS)
    for number in range(RANKS):
        print(open(os.path.join(os.environ["RESULTS"], f"symmetric{number}")).read().strip())
