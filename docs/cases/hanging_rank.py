"""Two ranks train; rank 1 finds a bad batch, skips it, and with it one all-reduce. Then the other rank waits for ever.

`FIXED=1` lets the ranks agree to skip the batch.
"""

import os
import sys

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    gradients = torch.zeros(1 << 20, device="cuda")
    for step in range(8):
        bad = rank == 1 and step == 5
        if os.environ.get("FIXED"):
            agreed = torch.tensor([int(bad)], device="cuda")
            dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
            bad = bool(agreed)
        if bad:
            continue
        gradients.fill_(step)
        dist.all_reduce(gradients)
        torch.cuda.synchronize()
    print(f"rank {rank} is done")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
