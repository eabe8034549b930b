"""Programs written for torch.distributed.tensor, with their imports changed, beside the same computation without a mesh."""

import numpy as np
import pytest

import weft_tensors as torch
from weft_tensors import nn
from weft_tensors.dtensor import (ColwiseParallel, DeviceMesh, DTensor, Partial, PrepareModuleInput, Replicate, RowwiseParallel, SequenceParallel, Shard,
                                  distribute_module, distribute_tensor, init_device_mesh, parallelize_module, zeros)


def world_mesh():
    return init_device_mesh("cpu", (torch.world_size(),))


def test_a_large_tensor_in_shards():
    mesh = world_mesh()
    big = torch.randn(1000, 8)
    shards = distribute_tensor(big, mesh, [Shard(dim=0)])
    assert isinstance(shards, DTensor) and shards.placements == (Shard(0),) and shards.shape == (1000, 8) and shards.device_mesh == mesh
    row = distribute_tensor(torch.randn(8, 1000), mesh, [Shard(1)])
    np.testing.assert_allclose((shards @ row).redistribute(mesh, [Replicate()]).to_local(), big.numpy() @ row.full_tensor().numpy(), atol=1e-4)
    assert zeros(16, 4, device_mesh=mesh, placements=[Shard(0)]).to_local().shape[1] == 4
    half = DeviceMesh("cpu", list(range(torch.world_size())))
    assert half == mesh and half.get_local_rank() == torch.first_rank()


def test_local_tensors_in_and_out():
    mesh = world_mesh()
    mine = [np.full((2, 3), rank, np.float32) for rank in range(torch.first_rank(), torch.first_rank() + torch.local_ranks())]
    rows = DTensor.from_local(mine, mesh, [Shard(0)], run_check=False)
    assert rows.shape == (2 * torch.world_size(), 3)
    addends = DTensor.from_local(mine, mesh, [Partial()])
    np.testing.assert_array_equal(addends.redistribute(placements=[Replicate()]).to_local(), np.full((2, 3), sum(range(torch.world_size()))))
    np.testing.assert_array_equal(addends.full_tensor().numpy(), np.full((2, 3), sum(range(torch.world_size()))))


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 32)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(32, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def losses(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    found = []
    for i in range(4):
        torch.manual_seed(i)
        output = model(torch.rand(20, 10))
        loss = output.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("plan", [
    {"net1": ColwiseParallel(), "net2": RowwiseParallel()},
    {"net1": ColwiseParallel(input_layouts=Shard(0)), "net2": RowwiseParallel(output_layouts=Shard(0))},
    {"net1": ColwiseParallel(output_layouts=Replicate())},
    {"": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0))},
])
def test_tensor_parallel_training(plan):
    torch.manual_seed(0)
    expected = losses(ToyModel().to("cpu"))
    torch.manual_seed(0)
    model = parallelize_module(ToyModel().to("cuda"), world_mesh(), plan)
    np.testing.assert_allclose(losses(model), expected, rtol=1e-3)


def test_sequence_parallel_norm():
    model = nn.Sequential(nn.LayerNorm(8))
    x = torch.randn(2, 12, 8)
    expected = model(x).numpy()
    y = parallelize_module(model, world_mesh(), {"0": SequenceParallel()})(x)
    assert y.placements == (Shard(1),) or torch.world_size() == 1
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-6)


def test_a_module_by_a_function():
    mesh = world_mesh()

    def shard_parameters(name, module, device_mesh):
        if isinstance(module, nn.Linear):
            for key, parameter in list(module.named_parameters()):
                module.register_parameter(key, nn.Parameter(distribute_tensor(parameter, device_mesh, [Shard(0)])))

    torch.manual_seed(0)
    x = torch.rand(4, 10)
    expected = ToyModel()(x).numpy()
    torch.manual_seed(0)
    torch.rand(4, 10)
    model = distribute_module(ToyModel(), mesh, partition_fn=shard_parameters)
    assert all(parameter.placements == (Shard(0),) for parameter in model.parameters()) or torch.world_size() == 1
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5)
    model(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_source_of_data():
    """Processes have different arrays."""
    mesh, process = init_device_mesh("cpu", (torch.world_size(),)), torch.process_index()
    own = np.arange(12.0).reshape(6, 2) + 100 * process
    for source in range(torch.world_size()):
        shards = distribute_tensor(own, mesh, [Shard(0)], src_data_rank=source)
        assert shards.placements == (Shard(0),) or torch.world_size() == 1
        values = shards.full_tensor().numpy()
        first = values[0, 0]
        np.testing.assert_array_equal(values, np.arange(12.0).reshape(6, 2) + first)
        assert first % 100 == 0 and (first == 100 * source if torch.world_size() == torch.num_processes() else first <= 100 * source)
    alone = distribute_tensor(own, mesh, [Shard(0)], src_data_rank=None)
    values = alone.full_tensor().numpy()
    for i in range(torch.local_ranks()):
        offset, extent = alone.local_box(i)
        np.testing.assert_array_equal(values[offset[0]:offset[0] + extent[0]], own[offset[0]:offset[0] + extent[0]])
    with pytest.raises(ValueError, match="no coordinate"):
        distribute_tensor(own, mesh, [Shard(0)], src_data_rank=torch.world_size())


def test_two_dimensions():
    if torch.world_size() % 2:
        return
    mesh = init_device_mesh("cpu", (2, torch.world_size() // 2), mesh_dim_names=("dp", "tp"))
    a = distribute_tensor(torch.ones(6, 8), mesh, [Shard(0), Shard(1)])
    assert mesh["tp"].size() == torch.world_size() // 2 and mesh.mesh_dim_names == ("dp", "tp")
    assert a.redistribute(placements=[Replicate(), Shard(1)]).placements == (Replicate(), Shard(1))
    with pytest.raises(ValueError, match="one dimension"):
        parallelize_module(ToyModel(), mesh, {"net1": ColwiseParallel()})
