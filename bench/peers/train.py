#!/usr/bin/env python3
"""Trains the transformer of examples/transformer_lm with PyTorch, and prints one JSON object: the losses, and tokens a second.

Without --parallel in one process. With it one process for each host, started by mpirun (bench/cluster), over gloo:
tp: tensor parallel by DTensor; fsdp: FSDP2 (fully_shard).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from model import VOCABULARY, Batches, Sizes, Transformer, load_weights, rate_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"layers": 4, "width": 512, "heads": 8, "kv-heads": 4, "context": 256, "batch": 8, "steps": 10, "seed": 0,
                        "warmup": 20, "threads": 2, "untimed": 2}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--tie", action="store_true", help="the head's weight is the embedding's")
    parser.add_argument("--text", required=True)
    parser.add_argument("--load", help="initial weights")
    parser.add_argument("--parallel", choices=["tp", "fsdp"])
    parser.add_argument("--whole-rows", action="store_true", help="tp without sequence parallelism")
    parser.add_argument("--keep-gathered", action="store_true", help="fsdp with gathered weights kept for the backward pass")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--profile", action="store_true", help="also print times of operations of the last steps")
    return parser.parse_args()


def join_hosts():
    """The process group of mpirun's processes: the first host of bench/cluster has address 1 of its net."""
    own = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]
    os.environ.setdefault("MASTER_ADDR", own.rsplit(".", 1)[0] + ".1")
    os.environ.setdefault("MASTER_PORT", "29511")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    return init_device_mesh("cpu", (ranks,))


def replicate(module, mesh):
    distribute_module(
        module, mesh, input_fn=lambda _, inputs, mesh: DTensor.from_local(inputs[0], mesh, [Replicate()]),
        output_fn=lambda _, output, mesh: output.to_local(),
    )


def split_matrices(model, mesh, sequence):
    """Tensor parallel: projections by columns, then by rows, one exchange for each block. With `sequence` the rows of
    what is between blocks are sharded too, so that an all-reduce is a reduce-scatter and an all-gather."""
    between = Shard(1) if sequence else Replicate()
    whole = {"input_layouts": (between, None, None), "desired_input_layouts": (Replicate(), None, None)}
    plan = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "head": ColwiseParallel(input_layouts=between, output_layouts=Shard(-1), use_local_output=False),
    }
    if sequence:
        plan["norm"] = SequenceParallel()
    else:
        replicate(model.norm, mesh)
    parallelize_module(model, mesh, plan)
    for layer in model.layers:
        plan = {
            "attention": PrepareModuleInput(**whole),
            "mlp": PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),)),
            "attention.wo": RowwiseParallel(output_layouts=between),
            "mlp.w2": RowwiseParallel(output_layouts=between),
        }
        for name in ("attention.wq", "attention.wk", "attention.wv", "mlp.w1", "mlp.w3"):
            plan[name] = ColwiseParallel()
        if sequence:
            plan["attention_norm"] = plan["mlp_norm"] = SequenceParallel()
        else:
            replicate(layer.attention_norm, mesh)
            replicate(layer.mlp_norm, mesh)
        parallelize_module(layer, mesh, plan)


def shard_parameters(model, mesh, keep):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=not keep)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)  # the root's are the first that the backward pass needs


class Training:
    def __init__(self, options):
        self.options = options
        sizes = Sizes(options.layers, options.width, options.heads, options.kv_heads, options.context)
        self.model = Transformer(sizes, options.tie)
        if options.load:
            load_weights(self.model, options.load)
        self.rows = (0, options.batch)
        if options.parallel:
            mesh = join_hosts()
            if options.parallel == "tp":
                split_matrices(self.model, mesh, sequence=not options.whole_rows)
            else:
                shard_parameters(self.model, mesh, options.keep_gathered)
                own = options.batch // mesh.size()
                self.rows = (mesh.get_local_rank() * own, own)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim == 2], "weight_decay": 0.1},
                {"params": [p for p in parameters if p.ndim != 2], "weight_decay": 0.0},
            ],
            lr=options.lr, betas=(0.9, 0.95), eps=1e-8, fused=True,
        )
        self.batches = Batches(options.text, options.seed, options.batch, options.context)
        self.forward = torch.compile(self.loss_of) if options.compile else self.loss_of

    def loss_of(self, tokens, targets):
        return F.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())

    def step(self, step):
        options = self.options
        tokens, targets = self.batches.rows(step, *self.rows)
        for group in self.optimizer.param_groups:
            group["lr"] = rate_of(step, options.steps, options.lr, options.warmup)
        if options.parallel == "tp":
            with loss_parallel():
                loss = self.forward(tokens, targets)
                loss.backward()
        else:
            loss = self.forward(tokens, targets)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def numbers_of(self, losses):
        """Of the whole batch; exchanged once, at the end."""
        losses = [loss.full_tensor() if isinstance(loss, DTensor) else loss for loss in losses]
        losses = torch.stack(losses)
        if self.options.parallel == "fsdp":
            dist.all_reduce(losses)
            losses /= dist.get_world_size()
        return losses.tolist()


def train(training, steps):
    """Losses, and the time of each step."""
    losses, times = [], []
    for step in range(steps):
        start = time.perf_counter()
        losses.append(training.step(step))
        times.append(time.perf_counter() - start)
    return losses, times


def profiled(training, steps):
    with torch.profiler.profile() as profile:
        result = train(training, steps)
    print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=40))
    return result


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    training = Training(options)
    losses, times = (profiled if options.profile else train)(training, options.steps)
    losses = training.numbers_of(losses)
    if not options.parallel or dist.get_rank() == 0:
        tokens = options.batch * options.context
        steady = times[options.untimed:] or times
        print(json.dumps({
            "tokens_per_s": round(tokens * len(steady) / sum(steady), 1), "median_step_s": round(statistics.median(steady), 4),
            "least_step_s": round(min(steady), 4), "seconds": round(sum(times), 3), "losses": losses,
        }), flush=True)
    if options.parallel:
        # Gloo's threads may still run when Python ends, which aborts the process at times: end it here.
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
