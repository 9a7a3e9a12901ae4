"""A tensor of PyTorch's other allocator, cudaMallocAsync, exported by a library that shares buffers (UCX#7110).

needs: torch
variables: PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
finds: ipc-memory-kind error
says: memory of a pool | the cause is PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync | Remove backend:cudaMallocAsync
"""
import os
import sys

import torch
from shared import MIB, Runtime

tensor = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda:0")
Runtime().export(tensor.data_ptr())
# Giving the pool's memory back at the end aborts this PyTorch, with and without us.
sys.stdout.flush()
os._exit(0)
