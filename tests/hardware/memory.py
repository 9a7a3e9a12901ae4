"""memory.py WHAT: jobs of PyTorch and of the driver's virtual memory on one GPU that run out of memory, or use what sleeps.

  colocated   a trainer deletes its activations, but its allocator keeps them: the engine cannot wake up
  sleep       an engine sleeps and gives its memory back; another process takes it, so that waking up fails
  partial     an engine wakes up its weights alone, and uses its cache
  loader      the workers of a DataLoader make CUDA tensors, of which the consumer keeps each: a worker finds no memory
  freed       the same, but the consumer frees each
  fork        a rank ends, but its forked worker keeps its device files, and so its memory: the next rank does not fit"""
import ctypes
import os
import sys
import time

GIB = 1 << 30
FAILED = 3


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def driver():
    """The driver, with a context of device 0 in this thread."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
    return cuda


def memory_info(cuda):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


class Engine:
    """Regions by tag, as the sleep mode of vLLM has them: the addresses stay, the memory comes and goes."""

    def __init__(self, cuda, sizes):
        self.cuda, self.regions = cuda, {}
        for tag, size in sizes.items():
            address = ctypes.c_uint64()
            assert cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)) == 0
            self.regions[tag] = [address, size, None]

    def wake_up(self, *tags):
        for tag in tags:
            address, size, _ = region = self.regions[tag]
            properties, handle = Properties(type=1, location=Location(1, 0)), ctypes.c_uint64()
            result = self.cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0))  # create
            if result:
                print(f"engine: wake_up of {tag} failed: {result}", flush=True)
                return result
            access = Access(Location(1, 0), 3)
            assert self.cuda.cuMemMap(address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0)) == 0
            assert self.cuda.cuMemSetAccess(address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1)) == 0
            region[2] = handle
        return 0

    def sleep(self):
        for address, size, handle in self.regions.values():
            assert self.cuda.cuMemUnmap(address, ctypes.c_size_t(size)) == 0  # unmap
            assert self.cuda.cuMemRelease(handle) == 0

    def use(self, tag):
        result = self.cuda.cuMemsetD8_v2(self.regions[tag][0], ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20))  # use
        return result or self.cuda.cuCtxSynchronize()


def trainer(turn, done):
    import torch

    total = torch.cuda.mem_get_info()[1]
    activations = torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")  # activations
    activations.fill_(1)
    torch.cuda.synchronize()
    del activations
    turn.put(1)
    done.get()


def waking(turn, done):
    import torch

    turn.get()
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")  # wake
        status = 0
    except torch.OutOfMemoryError:
        status = FAILED
    done.put(1)
    raise SystemExit(status)


def colocated():
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    turn, done = context.SimpleQueue(), context.SimpleQueue()
    first = context.Process(target=trainer, args=(turn, done))
    first.start()
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"  # the engine's memory is virtual
    second = context.Process(target=waking, args=(turn, done))
    second.start()
    first.join()
    second.join()
    raise SystemExit(second.exitcode)


def taker(turn, done):
    cuda = driver()
    turn.get()
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(memory_info(cuda)[0] * 0.9))) == 0  # taken
    done.put(1)
    turn.get()


def sleep():
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    turn, done = context.SimpleQueue(), context.SimpleQueue()
    other = context.Process(target=taker, args=(turn, done))
    other.start()
    cuda = driver()
    engine = Engine(cuda, {"weights": 20 * GIB, "cache": 40 * GIB})
    assert engine.wake_up("weights", "cache") == 0 and engine.use("cache") == 0
    engine.sleep()
    turn.put(1)
    done.get()
    result = engine.wake_up("weights", "cache")
    turn.put(1)
    other.join()
    raise SystemExit(FAILED if result else 0)


def partial():
    engine = Engine(driver(), {"weights": 2 * GIB, "cache": 4 * GIB})
    assert engine.wake_up("weights", "cache") == 0 and engine.use("weights") == 0 and engine.use("cache") == 0
    engine.sleep()
    assert engine.wake_up("weights") == 0 and engine.use("weights") == 0
    raise SystemExit(FAILED if engine.use("cache") else 0)  # too early


class Made:
    """A data set whose items are CUDA tensors."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        import torch

        return torch.full((256 << 20,), index, dtype=torch.uint8, device="cuda")  # made


def items():
    import torch

    return torch.utils.data.DataLoader(Made(), batch_size=None, num_workers=2, multiprocessing_context="spawn")


def freed():
    sum_ = sum(int(item[0]) for item in items())
    assert sum_ == sum(range(64)), sum_


def loader():
    import torch

    free = torch.cuda.mem_get_info()[0]
    ballast = torch.empty(free - 8 * GIB, dtype=torch.uint8, device="cuda")  # ballast
    kept = []
    try:
        for item in items():
            kept.append(item)  # kept
    except RuntimeError as error:
        print(f"loader: {len(kept)} kept of {ballast.numel() >> 30} GiB: {type(error).__name__}", flush=True)
        raise SystemExit(FAILED)


def rank(alive, go):
    cuda = driver()
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(memory_info(cuda)[1] // 4 * 3)) == 0  # weights
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    os.write(alive, b"r")
    os.read(go, 1)
    os._exit(1)


def fork():
    alive, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(alive[0])
        rank(alive[1], go[0])
    os.close(alive[1])
    os.read(alive[0], 1)
    os.write(go[1], b"g")
    os.waitpid(child, 0)
    time.sleep(1)
    cuda = driver()
    address = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(memory_info(cuda)[1] // 4 * 3))  # again
    os.read(alive[0], 1)
    raise SystemExit(FAILED if result else 0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
