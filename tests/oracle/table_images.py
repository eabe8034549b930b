"""Pooling and interpolation: images.h."""

import math

import torch.nn.functional as F

from drafts import Draft, any_type, with_edges
from rows import Row, family
from values import FLOATING, Operand


def image(random, dims, most=40):
    """Channels, often samples, and an image of elements."""
    while True:
        leading = [random.randint(1, 3) for _ in range(random.choice([1, 2, 2]))]
        if len(leading) > 1 and random.random() < 0.1:
            leading[0] = 0
        shape = leading + [random.randint(1, {1: 9, 2: 6, 3: 4}[dims]) for _ in range(dims)]
        if math.prod(shape) <= most:
            return shape


def all_have_elements(n, kernel, stride, padding, dilation):
    """PyTorch writes elsewhere in memory where no element of a dilated window is in the image."""
    count = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 2
    return all(any(0 <= i * stride - padding + t * dilation < n for t in range(kernel)) for i in range(count)
               if i * stride < n + padding)


def windows(averages):
    def sample(random):
        dims = random.randint(1, 3)
        while True:
            shape = image(random, dims)
            kernel = [random.randint(1, 3) for _ in range(dims)]
            stride = [random.randint(1, 3) for _ in range(dims)]
            dilation = [1 if averages else random.randint(1, 2) for _ in range(dims)]
            padding = [random.randint(0, k // 2) for k in kernel]
            values = {"dims": dims, "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
                      "ceil": random.randrange(2)}
            if averages:
                values["excludes"] = random.randrange(2)
                values["divisor"] = 0 if dims == 1 or random.randrange(3) else random.randint(1, 5)
            counts = [n + 2 * p - d * (k - 1) for n, k, p, d in zip(shape[-dims:], kernel, padding, dilation)]
            # PyTorch refuses volumes smaller than the kernel, whatever the padding.
            refused = averages and dims == 3 and any(n < k for n, k in zip(shape[-dims:], kernel))
            if min(counts) > 0 and not refused and all(map(all_have_elements, shape[-dims:], kernel, stride, padding, dilation)):
                break
        operand = Operand(any_type(random, FLOATING), shape)
        return Draft([operand if averages else with_edges(random, operand)], values)
    return sample


def sizes(averages):
    def sample(random):
        dims = random.randint(1, 3)
        operand = Operand(any_type(random, FLOATING), image(random, dims))
        return Draft([operand if averages else with_edges(random, operand)],
                     {"sizes": [random.randint(1, 4) for _ in range(dims)]})
    return sample


def max_pool(x, a):
    function = [F.max_pool1d, F.max_pool2d, F.max_pool3d][a["dims"] - 1]
    return function(x[0], a["kernel"], a["stride"], a["padding"], a["dilation"], bool(a["ceil"]), return_indices=True)


def avg_pool(x, a):
    more = {"divisor_override": a["divisor"] or None} if a["dims"] > 1 else {}
    function = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][a["dims"] - 1]
    # PyTorch has no averages of volumes in 16 bits.
    own = x[0].float() if x[0].dtype.itemsize == 2 else x[0]
    return function(own, a["kernel"], a["stride"], a["padding"], bool(a["ceil"]), not a["excludes"], **more).to(x[0].dtype)


def adaptive_max_pool(x, a):
    function = [F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d][len(a["sizes"]) - 1]
    return function(x[0], a["sizes"], return_indices=True)


def adaptive_avg_pool(x, a):
    function = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d][len(a["sizes"]) - 1]
    return function(x[0], a["sizes"])


def terms_of(function):
    def terms(x, a):
        result = function([x[0].double().abs()], a)
        return result.amax() if result.numel() else 0.0
    return terms


MODES = ["nearest", "nearest-exact", ["linear", "bilinear", "trilinear"], "bicubic"]  # as weft_interpolation_mode


def resized(nearest):
    """Sizes, or scales in quarters. In images so small the nearest elements do not depend on the type of the positions."""
    def sample(random):
        mode = random.randrange(2) if nearest else random.randint(2, 3)
        dims = 2 if mode == 3 else random.randint(1, 3)
        shape = image(random, dims)
        while True:
            quarters = [random.randint(1, 9) if random.randrange(2) else 4 for _ in range(dims)]
            sizes = [n * q // 4 for n, q in zip(shape[-dims:], quarters)]
            if random.randrange(2):
                quarters, sizes = [0] * dims, [random.randint(1, 7) for _ in range(dims)]
            if min(sizes) > 0 and math.prod(shape[:-dims] + sizes) <= 60:
                break
        operand = Operand(any_type(random, FLOATING), shape)
        attributes = {"mode": mode, "sizes": [0] * dims if any(quarters) else sizes, "quarters": quarters,
                      "align": 0 if nearest else random.randrange(2)}
        return Draft([with_edges(random, operand) if nearest else operand], attributes)
    return sample


def interpolate(x, a):
    dims, mode = len(a["sizes"]), MODES[a["mode"]]
    own = x[0] if x[0].dim() == dims + 2 else x[0].unsqueeze(0)
    result = F.interpolate(own, None if any(a["quarters"]) else a["sizes"],
                           [q / 4 for q in a["quarters"]] if any(a["quarters"]) else None,
                           mode[dims - 1] if isinstance(mode, list) else mode, bool(a["align"]) if a["mode"] > 1 else None)
    return result if x[0].dim() == dims + 2 else result.squeeze(0)


def differences_of_neighbours(x, _):
    """Positions are rounded too, in units of the image's size."""
    return 4 * float(x[0].double().abs().amax()) if x[0].numel() else 0.0


family("images", [
    Row("max_pool", windows(False), max_pool),
    Row("avg_pool", windows(True), avg_pool, terms_of(avg_pool)),
    Row("adaptive_max_pool", sizes(False), adaptive_max_pool),
    Row("adaptive_avg_pool", sizes(True), adaptive_avg_pool, terms_of(adaptive_avg_pool)),
    Row("interpolate_nearest", resized(True), interpolate),
    Row("interpolate", resized(False), interpolate, differences_of_neighbours),
])
