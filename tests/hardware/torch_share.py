"""PyTorch sends a tensor to another process, which copies it to the last GPU, changes it and answers."""
import torch
import torch.multiprocessing as mp


def receive(tensors, answers):
    tensor = tensors.get()
    other = tensor.to(f"cuda:{torch.cuda.device_count() - 1}")
    tensor.mul_(2)
    torch.cuda.synchronize()
    answers.put(float(other.sum()))
    del tensor, other
    torch.cuda.ipc_collect()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    tensors, answers = mp.Queue(), mp.Queue()
    child = mp.Process(target=receive, args=(tensors, answers))
    child.start()
    tensor = torch.arange(1 << 20, device="cuda:0", dtype=torch.float64)
    tensors.put(tensor)
    before = answers.get(timeout=120)
    child.join(120)
    torch.cuda.synchronize()
    print("child saw", before, "and left", float(tensor.sum()), "exit", child.exitcode)
