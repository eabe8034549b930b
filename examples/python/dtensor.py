"""A program for torch.distributed.tensor, with its imports changed.

    python dtensor.py
    mpirun -n 2 python dtensor.py
"""
import weft_tensors as torch
from weft_tensors import nn
from weft_tensors.dtensor import ColwiseParallel, RowwiseParallel, Shard, distribute_tensor, init_device_mesh, parallelize_module


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 32)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(32, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


mesh = init_device_mesh("cpu", (4,))
torch.manual_seed(0)
big = distribute_tensor(torch.randn(1000, 88), mesh, [Shard(dim=0)])
if torch.first_rank() == 0:
    print(big)

model = parallelize_module(Model(), mesh, {"net1": ColwiseParallel(), "net2": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
for i in range(3):
    torch.manual_seed(i)
    loss = model(torch.rand(20, 10)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.item()
    if torch.first_rank() == 0:
        print(f"iteration {i}: {value:.3f}")
