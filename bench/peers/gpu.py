#!/usr/bin/env python3
"""The operations of bench/gpu.c in PyTorch, on a CUDA device: microseconds of a call, eight calls in a row, the median of
seven. One JSON object per line, with the names of bench/gpu.c."""

import json
import statistics
import time

import torch
import torch.nn.functional as F

ROWS, CALLS, REPETITIONS = 8192, 8, 7


def operations():
    device = {"device": "cuda"}
    a, b, gain = torch.rand(ROWS, ROWS, **device), torch.rand(ROWS, ROWS, **device), torch.rand(ROWS, **device)
    half_a, half_b, half_gain = a.bfloat16(), b.bfloat16(), gain.bfloat16()
    column = torch.randint(ROWS, (ROWS,), **device)
    heads = torch.randn(1, 16, 2048, 64, **device)
    half_heads = heads.bfloat16()
    images, filters = torch.rand(32, 128, 56, 56, **device), torch.rand(128, 128, 3, 3, **device)
    half_images, half_filters = images.bfloat16(), filters.bfloat16()
    square = torch.rand(4096, 4096, **device)
    parameter = torch.nn.Parameter(torch.rand(ROWS, ROWS, **device))
    parameter.grad = torch.rand(ROWS, ROWS, **device)
    adam = torch.optim.Adam([parameter], fused=True)
    attend = F.scaled_dot_product_attention
    return {
        "add": lambda: a + b,
        "matmul": lambda: square @ square,
        "exp": lambda: torch.exp(a),
        "gelu": lambda: F.gelu(a),
        "add bf16": lambda: half_a + half_b,
        "mul, a vector along the columns": lambda: a * gain,
        "sum of rows": lambda: a.sum(1),
        "sum of columns": lambda: a.sum(0),
        "sum": lambda: a.sum(),
        "softmax": lambda: torch.softmax(a, 1),
        "layer_norm": lambda: F.layer_norm(a, (ROWS,), gain, gain),
        "rms_norm": lambda: F.rms_norm(a, (ROWS,), gain, 1e-5),
        "cross_entropy": lambda: F.cross_entropy(a, column),
        "cumsum along rows": lambda: a.cumsum(1),
        "cumsum along columns": lambda: a.cumsum(0),
        "transpose": lambda: a.T.contiguous(),
        "embedding": lambda: F.embedding(column, a),
        "adam": adam.step,
        "sort": lambda: a.sort(1),
        "histogram": lambda: a.histc(1000, 0, 1),
        "matmul bf16": lambda: half_a @ half_b,
        "linear bf16": lambda: F.linear(half_a, half_b, half_gain),
        "attention": lambda: attend(heads, heads, heads),
        "attention bf16": lambda: attend(half_heads, half_heads, half_heads),
        "conv2d": lambda: F.conv2d(images, filters, padding=1),
        "conv2d bf16": lambda: F.conv2d(half_images, half_filters, padding=1),
    }


def main():
    torch.backends.cudnn.allow_tf32 = False  # as weft: single precision is single precision
    for name, call in operations().items():
        times = []
        for _ in range(1 + REPETITIONS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / CALLS * 1e6)
        print(json.dumps({"bench": "gpu", "case": name, "torch_us": round(statistics.median(times[1:]))}), flush=True)


if __name__ == "__main__":
    main()
