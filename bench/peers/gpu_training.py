#!/usr/bin/env python3
"""Trains the transformer of examples/transformer_lm with PyTorch on a CUDA device, with the same batches and settings, and prints
one JSON object: tokens a second. --compile: by torch.compile. --dtype bf16: weights in single precision, products in bfloat16."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from model import Batches, Sizes, Transformer, rate_of


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"layers": 8, "width": 1024, "heads": 16, "kv-heads": 16, "context": 1024, "batch": 8, "steps": 20, "seed": 1,
                        "warmup": 40, "untimed": 5}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--text", required=True)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(options.seed)
    sizes = Sizes(options.layers, options.width, options.heads, options.kv_heads, options.context)
    model = Transformer(sizes).cuda()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.ndim == 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.ndim != 2], "weight_decay": 0.0}],
        lr=options.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)
    batches = Batches(options.text, options.seed, options.batch, options.context)

    def loss_of(tokens, targets):
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    forward = torch.compile(loss_of) if options.compile else loss_of

    def step(number):
        tokens, targets = (part.cuda(non_blocking=True) for part in batches.rows(number, 0, options.batch))
        for group in optimizer.param_groups:
            group["lr"] = rate_of(number, options.steps, options.lr, options.warmup)
        with torch.autocast("cuda", torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = [step(number) for number in range(options.untimed)]
    torch.cuda.synchronize()
    start = time.perf_counter()
    losses += [step(number) for number in range(options.untimed, options.steps)]
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    tokens = options.batch * options.context * (options.steps - options.untimed)
    print(json.dumps({
        "bench": "training", "case": f"PyTorch {options.dtype}{', compiled' if options.compile else ''}",
        "tokens_per_s": round(tokens / seconds), "loss_first": losses[0].item(), "loss_last": losses[-1].item(),
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
    }), flush=True)


if __name__ == "__main__":
    main()
