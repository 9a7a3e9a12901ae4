"""A tensor of PyTorch's expandable segments, exported as vLLM's custom all-reduce does (vllm#42609).

needs: torch
variables: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
finds: ipc-memory-kind error
says: virtual memory | the cause is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True | Remove expandable_segments:True
"""
import torch
from shared import MIB, Runtime

tensor = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda:0")
Runtime().export(tensor.data_ptr())
