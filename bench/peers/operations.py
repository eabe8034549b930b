#!/usr/bin/env python3
"""The operations of bench/training.c with PyTorch, beside weft's: `operations.py BUILD [NAME...]` prints one JSON object for each.

Both run in turns, --turns times; a ratio is PyTorch's time over weft's, of the least times and of the medians. Both compute in
two threads, and keep the memory of results that ended: PyTorch by the C library's settings, KEPT.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from model import Sizes, rotary_table, rotate

B, T, D, HIDDEN, KV_HEADS, SHARING, E, CLASSES = 8, 256, 512, 1408, 4, 2, 64, 256
ROWS = B * T
LARGE_ROWS, LARGE_COLUMNS, HEADS, LENGTH = 16384, 1024, 16, 1024
FACTOR_ROWS, FACTOR_COLUMNS = 4096, 1024
SAMPLES, CHANNELS, SIDE, TAPS = 32, 128, 28, 3

# Of PyTorch's process. No part of the heap is given back to the system: else new pages are a third of the time of a sum of large
# tensors. Where OpenMP is Intel's, its threads spin for 10 ms instead of 200.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "KMP_BLOCKTIME": "10"}

# OpenMP's threads spin before they sleep, on cores that the other side needs: for less than this.
SPIN_S = 0.05


def backward_of(function, *inputs):
    """A call of the backward pass alone, of a function of leaves."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    gradient = torch.randn_like(output) if output.ndim else torch.ones(())
    return lambda: torch.autograd.grad(output, leaves, gradient, retain_graph=True)


def operations():
    randn = torch.randn
    x, dx, hidden, dhidden, up = randn(ROWS, D), randn(ROWS, D), randn(ROWS, HIDDEN), randn(ROWS, HIDDEN), randn(ROWS, HIDDEN)
    to_hidden, from_hidden, gain = randn(HIDDEN, D), randn(D, HIDDEN), randn(D)  # [out, in], as nn.Linear has them
    q, k, v = randn(B, KV_HEADS * SHARING, T, E), randn(B, KV_HEADS, T, E), randn(B, KV_HEADS, T, E)
    by_position = randn(B, T, KV_HEADS * SHARING, E)
    table, logits = randn(CLASSES, D), randn(ROWS, CLASSES)
    tokens, classes = torch.randint(CLASSES, (ROWS,)), torch.randint(CLASSES, (ROWS,))
    cosine, sine = rotary_table(Sizes(1, D, KV_HEADS * SHARING, KV_HEADS, T))
    parameters = [torch.nn.Parameter(randn(D, HIDDEN)) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    adamw = torch.optim.AdamW(parameters, fused=True)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def norm(x, gain):
        return F.rms_norm(x, (D,), gain, 1e-5)

    def gate(hidden, up):
        return F.silu(hidden) * up

    return {
        "matmul": lambda: F.linear(x, to_hidden),
        "matmul_back": lambda: F.linear(hidden, from_hidden),
        "matmul_gradient_of_x": lambda: dhidden @ to_hidden,
        "matmul_gradient_of_w": lambda: dhidden.T @ x,
        "attention": lambda: attend(q, k, v),
        "attention_backward": backward_of(attend, q, k, v),
        "rms_norm": lambda: norm(x, gain),
        "rms_norm_backward": backward_of(norm, x, gain),
        "add": lambda: x + dx,
        "silu_mul": lambda: gate(hidden, up),
        "silu_mul_backward": backward_of(gate, hidden, up),
        "rotary": lambda: rotate(by_position, cosine, sine),
        "permute": lambda: by_position.transpose(1, 2).contiguous(),
        "embedding": lambda: F.embedding(tokens, table),
        "embedding_backward": backward_of(lambda table: F.embedding(tokens, table), table),
        "cross_entropy": lambda: F.cross_entropy(logits, classes),
        "cross_entropy_backward": backward_of(lambda logits: F.cross_entropy(logits, classes), logits),
        "adamw": adamw.step,
        "clip": lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True),
    }


def large_operations():
    """On tensors of 64 MB, which no cache holds; products of 8.6 GFLOP, convolutions of 7.4."""
    randn = torch.randn
    a, b = randn(LARGE_ROWS, LARGE_COLUMNS), randn(LARGE_ROWS, LARGE_COLUMNS)
    half, halves = a.bfloat16(), b.bfloat16()
    order, gain, bias = torch.randperm(LARGE_ROWS), randn(LARGE_COLUMNS), randn(LARGE_COLUMNS)
    left, right = randn(FACTOR_ROWS, FACTOR_COLUMNS), randn(FACTOR_COLUMNS, FACTOR_COLUMNS)
    left_half, right_half = left.bfloat16(), right.bfloat16()
    q, k, v = randn(1, HEADS, LENGTH, E), randn(1, HEADS, LENGTH, E), randn(1, HEADS, LENGTH, E)
    images, filters = randn(SAMPLES, CHANNELS, SIDE, SIDE), randn(CHANNELS, CHANNELS, TAPS, TAPS)
    convolved = randn(SAMPLES, CHANNELS, SIDE, SIDE)

    def convolution_gradient(of_x):
        return torch.ops.aten.convolution_backward(convolved, images, filters, None, [1, 1], [TAPS // 2, TAPS // 2], [1, 1], False,
                                                   [0, 0], 1, [of_x, not of_x, False])

    parameter = torch.nn.Parameter(a.clone())
    parameter.grad = b
    adam = torch.optim.Adam([parameter], fused=True)
    return {
        "large_matmul": lambda: left @ right,
        "large_matmul_bf16": lambda: left_half @ right_half,
        "large_convolution": lambda: F.conv2d(images, filters, padding=TAPS // 2),
        "large_convolution_gradient_of_x": lambda: convolution_gradient(True),
        "large_convolution_gradient_of_w": lambda: convolution_gradient(False),
        "large_add": lambda: a + b,
        "large_mul": lambda: a * b,
        "large_relu": lambda: F.relu(a),
        "large_gelu": lambda: F.gelu(a),
        "large_add_bf16": lambda: half + halves,
        "large_gelu_bf16": lambda: F.gelu(half),
        "large_sum_rows": lambda: a.sum(1),
        "large_sum_columns": lambda: a.sum(0),
        "large_cumsum": lambda: a.cumsum(1),
        "large_softmax": lambda: F.softmax(a, 1),
        "large_layer_norm": lambda: F.layer_norm(a, (LARGE_COLUMNS,), gain, bias),
        "large_transpose": lambda: a.T.contiguous(),
        "large_embedding": lambda: F.embedding(order, a),
        "large_adam": adam.step,
        "large_attention": lambda: F.scaled_dot_product_attention(q, k, v),
        "large_attention_backward": backward_of(F.scaled_dot_product_attention, q, k, v),
    }


def timed(call, repetitions, calls):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append(1e6 * (time.perf_counter() - start) / calls)
    return times


class Weft:
    def __init__(self, build):
        own = {name: value for name, value in os.environ.items() if name not in KEPT}
        self.process = subprocess.Popen(
            [os.path.join(build, "bench/bench-training")], env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def timed(self, name, repetitions, calls):
        self.process.stdin.write(f"{name} {repetitions} {calls}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--repetitions", type=int, default=5, help="of one turn")
    parser.add_argument("--calls", type=int, default=8, help="of one repetition, together; products, large tensors: a quarter")
    arguments = parser.parse_args()
    if any(name not in os.environ for name in KEPT):  # they are read when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEPT})
    torch.set_num_threads(2)
    calls, weft = {**operations(), **large_operations()}, Weft(arguments.build)
    for name in arguments.names or calls:
        times = {"weft": [], "torch": []}
        for turn in range(arguments.turns + 1):
            together = max(1, arguments.calls // 4) if any(word in name for word in ("mat", "attention", "large")) else arguments.calls
            pair = {}
            for who, time_it in (("weft", lambda: weft.timed(name, arguments.repetitions, together)),
                                 ("torch", lambda: timed(calls[name], arguments.repetitions, together))):
                time.sleep(SPIN_S)
                pair[who] = time_it()
            for who, values in pair.items():
                times[who] += values if turn > 0 else []  # the first turn allocates
        least = {who: min(values) for who, values in times.items()}
        median = {who: statistics.median(values) for who, values in times.items()}
        print(json.dumps({
            "bench": "operations", "case": name, "weft_us": round(least["weft"]), "torch_us": round(least["torch"]),
            "torch_over_weft": round(least["torch"] / least["weft"], 3),
            "torch_over_weft_median": round(median["torch"] / median["weft"], 3),
        }), flush=True)
    weft.close()


if __name__ == "__main__":
    main()
