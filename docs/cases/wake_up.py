"""An inference engine sleeps while a trainer uses its GPU, and cannot wake up.

The engine keeps its weights in virtual memory. To sleep, it unmaps and releases them; to wake up, it creates and maps them
again at the same address. The trainer deletes its tensors before that. `FIXED=1` also empties its cache.
"""

import os
import sys

import torch
import torch.multiprocessing as mp
from cuda.bindings import driver

GIB = 1 << 30


def check(result):
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the engine cannot wake up: {error.name}")
    return values[0] if values else None


class Weights:
    def __init__(self, size):
        self.size, self.handle = size, None
        self.address = check(driver.cuMemAddressReserve(size, 0, 0, 0))

    def wake_up(self):
        wanted = driver.CUmemAllocationProp()
        wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self.handle = check(driver.cuMemCreate(self.size, wanted, 0))
        check(driver.cuMemMap(self.address, self.size, 0, self.handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = wanted.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        check(driver.cuMemSetAccess(self.address, self.size, [access], 1))

    def sleep(self):
        check(driver.cuMemUnmap(self.address, self.size))
        check(driver.cuMemRelease(self.handle))


def train(steps, done, quit):
    steps.wait()
    activations = [torch.empty(8 * GIB, dtype=torch.uint8, device="cuda") for _ in range(int(os.environ["TRAINER"]))]
    del activations
    if os.environ.get("FIXED"):
        torch.cuda.empty_cache()
    done.set()
    quit.wait()


def main():
    mp.set_start_method("spawn")
    torch.cuda.init()
    free, _ = torch.cuda.mem_get_info()
    size = free // 2 // GIB * GIB
    os.environ["TRAINER"] = str((free - 4 * GIB) // (8 * GIB))
    weights = Weights(size)
    weights.wake_up()
    steps, done, quit = mp.Event(), mp.Event(), mp.Event()
    trainer = mp.Process(target=train, args=(steps, done, quit))
    trainer.start()
    weights.sleep()
    steps.set()
    done.wait()
    try:
        weights.wake_up()
        print("the engine is awake")
    finally:
        quit.set()
        trainer.join()


if __name__ == "__main__":
    sys.exit(main())
