"""PyTorch has enabled peer access by a copy, and another part of the program enables it again (llama.cpp#5347).

needs: torch
finds: peer-already-enabled note
says: Treat this result as success. With the CUDA runtime, also call cudaGetLastError() once
"""
import torch
from shared import MIB, Runtime, cannot

if torch.cuda.device_count() < 2:
    cannot("there is one GPU")

tensor = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda:0")
other = tensor.to("cuda:1")
tensor.copy_(other)
torch.cuda.synchronize()
runtime = Runtime()
for device in (0, 1):
    runtime.call("cudaSetDevice", device)
    again = runtime.library.cudaDeviceEnablePeerAccess(1 - device, 0)
    # PyTorch may have enabled one direction alone: then this was the first time for the other.
    if again == 0:
        again = runtime.library.cudaDeviceEnablePeerAccess(1 - device, 0)
    print("cudaDeviceEnablePeerAccess:", runtime.library.cudaGetErrorName(again).decode())
    runtime.library.cudaGetLastError()
