"""The steps of docs/training.md in Python: a product, a gradient, descent, a module and its plan, AdamW, a graph, a checkpoint.

    python tutorial.py
    mpirun -n 2 python tutorial.py
"""
import tempfile
from pathlib import Path

import weft_tensors as wt
from weft_tensors import nn, optim

wt.init(ranks=4)  # in this process, or spread over mpirun's
mesh = wt.Mesh((2, 2), ("dp", "tp"))


def say(what, value):
    if wt.first_rank() == 0:
        print(f"{what:<32}{value:10.4f}")


# 1. A product
with mesh:  # the mesh of calls that name none
    x = wt.ones(64, 32, placements="S0,R")  # rows over dp, replicated over tp
    w = wt.full((32, 16), 0.5, placements="R,S1")  # columns over tp, replicated over dp
    y = x @ w  # each rank has a tile: no communication
    say("product: mean", y.mean().item())

# 2. A gradient
w.requires_grad = True
loss = (x @ w).square().mean()
loss.backward()  # submits the backward pass, and waits for nothing
say("gradient: loss", loss.item())
say("gradient: sum of d loss / d w", w.grad.sum().item())

# 3. Descent
x = wt.randn(64, 32, mesh=mesh, placements="S0,R")
wanted = x @ wt.ones(32, 16, mesh=mesh, placements="R,S1")
w.grad = None
optimizer = optim.SGD([w], lr=2)
for step in range(201):
    loss = nn.functional.mse_loss(x @ w, wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        say("descent: loss", loss.item())


# 4. Modules, and a plan
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 16)

    def forward(self, x):
        return self.down(wt.gelu(self.up(x)))


model = MLP().parallelize(mesh, [
    ("up", "columns", "tp"),          # along tp each rank has some of the hidden numbers
    ("down", "rows", "tp"),
    ("**", "fully_sharded", "dp"),    # along dp some of the rows, and of the weights
])

# 5. AdamW, in a captured graph
optimizer = optim.AdamW(model.parameters(), lr=3e-3)


@wt.graph
def step(x, wanted):
    loss = nn.functional.mse_loss(model(x), wanted)
    loss.backward()
    nn.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


losses = [step(x, wanted) for _ in range(300)]  # nothing waits in here
say("modules: loss", losses[0].item())
say("modules: loss", losses[-1].item())

# 6. A checkpoint, loaded into another layout
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder if wt.num_processes() == 1 else tempfile.gettempdir()) / "tutorial.safetensors"
    wt.save_checkpoint(path, model)
    other = MLP().parallelize(mesh, {"**": ("fully_sharded", "tp")})
    wt.load_checkpoint(path, other)
    say("checkpoint: difference", (other(x) - model(x)).abs().max().item())
