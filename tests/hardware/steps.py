"""One program that shares GPU memory, with its steps timed: `steps.py NAME`.

Prints lines of "step NAME TIME RESULT": the microseconds of a median step (nccl-tests: of all sizes together), and what the
program computed. Ends with status 77 and a reason where the machine lacks the program.

UCX and NIXL are those of PATH or of the Python packages libucx and nixl_cu13; nccl-tests are those of PATH or of the
folder $NCCL_TESTS.
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
MISSING = 77


def missing(what):
    print(what, file=sys.stderr)
    sys.exit(MISSING)


def digest(tensor):
    return hashlib.sha256(tensor.detach().float().cpu().numpy().tobytes()).hexdigest()[:12]


def timed(steps, step, before=3, synchronize=None):
    """Runs `step` and returns the median of its times in microseconds."""
    if synchronize is None:
        import torch

        synchronize = torch.cuda.synchronize
    times = []
    for number in range(before + steps):
        synchronize()
        begun = time.perf_counter()
        step()
        synchronize()
        if number >= before:
            times.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times)


def free_port():
    """Returns a port that nobody listens at, as text."""
    with socket.create_server(("", 0)) as listening:
        return str(listening.getsockname()[1])


def tell(figure, microseconds, result):
    print(f"step {figure} {microseconds:.2f} {result}", flush=True)


# UCX: two processes, each on a device of its own that sees the other's.


def perftest():
    """Returns the program and the environment that it needs."""
    found = shutil.which("ucx_perftest")
    package = importlib.util.find_spec("libucx")
    if found:
        return found, {}
    if not package:
        missing("there is no ucx_perftest on PATH, and no Python package libucx")
    # The package's programs do not say where its libraries are.
    folder = list(package.submodule_search_locations)[0]
    libraries = [os.path.join(folder, "lib"), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    return os.path.join(folder, "bin/ucx_perftest"), {"LD_LIBRARY_PATH": ":".join(filter(None, libraries))}


def ucx(test, size, count):
    """Sends messages from one device to the other's process."""
    program, needed = perftest()
    command = [program, "-m", "cuda", "-t", test, "-s", str(size), "-n", str(count), "-w", "1000", "-f"]
    port = free_port()
    environment = {"UCX_LOG_LEVEL": "error", **os.environ, **needed}
    # The server, which is the first, takes the first device, and the client the second.
    server = subprocess.Popen([*command, "-p", port], env=environment, stdout=subprocess.DEVNULL)
    # The client tries again until the server listens.
    for _ in range(200):
        client = subprocess.run(
            [*command, "-p", port, "localhost"],
            env=environment,
            capture_output=True,
            text=True,
        )
        if client.returncode == 0 or "onnect" not in client.stderr + client.stdout:
            break
        time.sleep(0.1)
    server.wait()
    rows = [line.split() for line in client.stdout.splitlines() if re.match(r"(\[.*\])?\s*(Final:)?\s*\d+\s", line)]
    if client.returncode or server.returncode or not rows:
        sys.exit(f"ucx_perftest: {client.returncode}, {server.returncode}\n{client.stdout}{client.stderr}")
    # Count; 50th percentile, average, and overall time in microseconds; bandwidths; rates.
    tell(test, float(rows[-1][-5]), f"{rows[-1][-8]} messages")


# NIXL: one agent reads many blocks of the other's memory.


def nixl(blocks=1024, block=16384, steps=20):
    import multiprocessing

    if not importlib.util.find_spec("nixl_cu13"):
        missing("there is no Python package nixl_cu13")
    here, there = multiprocessing.get_context("spawn").Pipe()
    target = multiprocessing.get_context("spawn").Process(target=nixl_target, args=(there, blocks, block))
    target.start()
    agent, tensors = nixl_agent("reader", 0, blocks, block, fill=0)
    metadata, remote = here.recv()
    name = agent.add_remote_agent(metadata)
    local = agent.get_xfer_descs(tensors)
    handle = agent.initialize_xfer("READ", local, agent.deserialize_descs(remote), name)

    def step():
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            sys.exit(f"the transfer ended as {state}")

    took = timed(steps, step)
    result = digest(tensors[-1])
    agent.release_xfer_handle(handle)
    here.send("done")
    target.join()
    tell("read", took, result)


def nixl_agent(name, device, blocks, block, fill):
    import torch
    from nixl_cu13 import nixl_agent as Agent, nixl_agent_config as Config

    torch.cuda.set_device(device)
    agent = Agent(name, Config(backends=["UCX"]))
    memory = torch.full((blocks, block), fill, dtype=torch.uint8, device=f"cuda:{device}")
    agent.register_memory([memory])
    return agent, list(memory)


def nixl_target(pipe, blocks, block):
    import torch

    device = 1 % torch.cuda.device_count()
    agent, tensors = nixl_agent("target", device, blocks, block, fill=7)
    pipe.send((agent.get_agent_metadata(), agent.get_serialized_descs(agent.get_xfer_descs(tensors))))
    pipe.recv()


# CuPy: one process copies from an array of the other, which is on another device.


def cupy_copies(size=16 << 20):
    import multiprocessing

    if not importlib.util.find_spec("cupy"):
        missing("there is no Python package cupy")
    here, there = multiprocessing.get_context("spawn").Pipe()
    owner = multiprocessing.get_context("spawn").Process(target=cupy_owner, args=(there, size))
    owner.start()
    import cupy

    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(0):
        own = cupy.empty(size, cupy.uint8)
        opened = runtime.ipcOpenMemHandle(here.recv())
        copy = functools.partial(runtime.memcpyAsync, own.data.ptr, opened, size, runtime.memcpyDeviceToDevice, 0)
        took = timed(200, copy, 10, runtime.deviceSynchronize)
        copied = own.get().tobytes()
        runtime.ipcCloseMemHandle(opened)
    here.send("done")
    owner.join()
    tell("copy", took, hashlib.sha256(copied).hexdigest()[:12])


def cupy_owner(pipe, size):
    import cupy

    with cupy.cuda.Device(1 % cupy.cuda.runtime.getDeviceCount()):
        # Not of a pool: the handle is of the whole allocation, at its start.
        array = cupy.cuda.Memory(size)
        cupy.cuda.runtime.memset(array.ptr, 7, size)
        cupy.cuda.runtime.deviceSynchronize()
        pipe.send(cupy.cuda.runtime.ipcGetMemHandle(array.ptr))
        pipe.recv()


# nccl-tests: one process with a thread a device.


def nccl_tests(name):
    folder = os.environ.get("NCCL_TESTS")
    program = shutil.which(name) or (folder and shutil.which(name, path=folder))
    if not program:
        missing(f"there is no {name} on PATH or in $NCCL_TESTS")
    import torch

    count = str(torch.cuda.device_count())
    run = subprocess.run(
        [program, "-t", count, "-g", "1", "-b", "8", "-e", "64M", "-f", "8", "-n", "200", "-w", "20"],
        capture_output=True,
        text=True,
    )
    rows = [line.split() for line in run.stdout.splitlines() if re.match(r"\s*\d+\s+\d+\s+\w", line)]
    if run.returncode or not rows:
        sys.exit(f"{name}: {run.returncode}\n{run.stdout}{run.stderr}")
    tell(name, sum(float(row[5]) for row in rows), f"{len(rows)} sizes, wrong: {' '.join(row[8] for row in rows)}")


# PyTorch: one process a device.


def ranks(function):
    import torch

    count = torch.cuda.device_count()
    torch.multiprocessing.spawn(rank, args=(count, function, free_port()), nprocs=count)


def rank(number, count, function, port):
    import torch

    os.environ.update(
        RANK=str(number),
        WORLD_SIZE=str(count),
        LOCAL_RANK=str(number),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
    )
    # Each rank has cores of its own: where the scheduler puts them differs more from run to run than what is compared.
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // count)
    os.sched_setaffinity(0, cores[number * share : (number + 1) * share] or cores)
    torch.manual_seed(1)
    torch.cuda.set_device(number)
    globals()[function](number, count)


def training(number, count):
    import torch
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", number))
    collectives(number, count)
    train("ddp", number, torch.nn.parallel.DistributedDataParallel(layers(), device_ids=[number]))
    model = layers()
    for layer in model:
        fully_shard(layer)
    train("fsdp", number, fully_shard(model))
    torch.distributed.destroy_process_group()


def collectives(number, count):
    import torch
    import torch.distributed as distributed

    data, other = (torch.full((4 << 20,), float(number + 1), device="cuda") for _ in range(2))

    def step():
        distributed.all_reduce(data)
        data.div_(count)
        distributed.all_to_all_single(other, data)
        pair = [
            distributed.P2POp(distributed.isend, other, (number + 1) % count),
            distributed.P2POp(distributed.irecv, data, (number - 1) % count),
        ]
        for work in distributed.batch_isend_irecv(pair):
            work.wait()

    took = timed(100, step, before=10)
    if number == 0:
        tell("collectives", took, digest(data))


def nvshmem_library():
    import torch

    return os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_nvshmem.so")


def nvshmem_ranks():
    if not os.path.exists(nvshmem_library()):
        missing("PyTorch has no NVSHMEM here")
    # Multicast can take down GPUs that others use; no other host takes part.
    os.environ.update(NVSHMEM_DISABLE_NVLS="1", NVSHMEM_REMOTE_TRANSPORT="none")
    ranks("nvshmem")


def nvshmem(number, count):
    import torch
    import torch.distributed as distributed
    import torch.distributed._symmetric_memory as symmetric

    # In this order, and before the group is made: otherwise there is no such backend.
    assert symmetric.is_nvshmem_available()
    ctypes.CDLL(nvshmem_library(), ctypes.RTLD_GLOBAL)
    symmetric.set_backend("NVSHMEM")
    distributed.init_process_group("nccl", device_id=torch.device("cuda", number))
    distributed.all_reduce(torch.ones(1, device="cuda"))
    group = distributed.group.WORLD.group_name
    data = symmetric.empty(1 << 18, dtype=torch.float32, device=f"cuda:{number}").fill_(number + 1)
    symmetric.rendezvous(data, group=group)
    torch.cuda.synchronize()
    distributed.barrier()
    broadcast = torch.ops.symm_mem.nvshmem_broadcast
    arguments = (data, 0, group) if len(broadcast.default._schema.arguments) == 3 else (data, group)
    # The first one makes a team. A run of 520 did not end, without cupeer; runs of 50 do.
    first = timed(1, lambda: broadcast(*arguments), before=0)
    took = timed(30, lambda: broadcast(*arguments), before=10)
    if number == 0:
        tell("first", first, digest(data))
        tell("broadcast", took, digest(data))
    distributed.destroy_process_group()


def layers():
    import torch

    return torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()


def train(figure, number, model):
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(64, 2048, device="cuda", generator=torch.Generator("cuda").manual_seed(number))

    def step():
        optimizer.zero_grad()
        step.loss = model(inputs).square().mean()
        step.loss.backward()
        optimizer.step()

    took = timed(100, step, before=10)
    if number == 0:
        tell(figure, took, f"loss {step.loss.item():.6f}")


def rpc(number, count):
    import torch
    import torch.distributed.rpc as remote

    options = remote.TensorPipeRpcBackendOptions()
    for peer in range(count):
        if peer != number:
            options.set_device_map(f"worker{peer}", {number: peer})
    remote.init_rpc(f"worker{number}", rank=number, world_size=count, rpc_backend_options=options)
    if number == 0:
        data = torch.ones(1 << 16, device="cuda:0")

        def step():
            step.sum = remote.rpc_sync("worker1", torch.add, args=(data, data))

        took = timed(500, step, before=20)
        tell("rpc", took, digest(step.sum))
    remote.shutdown()


PROGRAMS = {
    "ucx": lambda: (ucx("tag_lat", 8, 20000), ucx("tag_bw", 8 << 20, 200)),
    "nixl": nixl,
    "nixl-no-ipc": lambda: (os.environ.update(UCX_TLS="^cuda_ipc"), nixl(steps=10)),
    "nccl-tests": lambda: [nccl_tests(name) for name in ("all_reduce_perf", "alltoall_perf", "sendrecv_perf")],
    "cupy": cupy_copies,
    "rpc": lambda: ranks("rpc"),
    "training": lambda: ranks("training"),
    "nvshmem": nvshmem_ranks,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"usage: steps.py {'|'.join(PROGRAMS)}")
    PROGRAMS[sys.argv[1]]()
