"""Values of inputs, which the C side makes again from the same few numbers (inputs.c), and the text of
answers."""

import dataclasses

import torch

TYPES = {
    "f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
    "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
FLOATING = ["f32", "f64", "bf16", "f16"]
INTEGER = ["i64", "i32", "u8"]
BITS = {"f64": torch.int64, "f32": torch.int32, "bf16": torch.int16, "f16": torch.int16}

ALL_64 = (1 << 64) - 1


class Stream:
    """splitmix64, as in tests/support/prng.h."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & ALL_64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & ALL_64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & ALL_64
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n


@dataclasses.dataclass(frozen=True)
class Domain:
    """Whole numbers low .. high, divided by a power of two: what every type holds exactly. `special`: one
    element in eight is a value at the edge of its type. `distinct`: no value twice."""

    low: int
    high: int
    denominator: int = 1
    special: bool = False
    distinct: bool = False

    def text(self):
        number = f"{self.low}:{self.high}"
        return (number + (f"/{self.denominator}" if self.denominator > 1 else "")
                + ("*" if self.special else "") + ("!" if self.distinct else ""))


REAL = Domain(-240, 240, 64)
DEFAULT = {
    "f64": REAL, "f32": REAL, "bf16": REAL, "f16": REAL,
    "i64": Domain(-9, 9), "i32": Domain(-9, 9), "u8": Domain(0, 9), "bool": Domain(0, 1),
}


def special_values(type_name):
    """NaN, infinities, both zeros, the largest and the smallest; of integers the ends of their range."""
    if type_name == "bool":
        return [False, True]
    if type_name in INTEGER:
        info = torch.iinfo(TYPES[type_name])
        return [info.min, info.max, 0, 1]
    info = torch.finfo(TYPES[type_name])
    return [float("nan"), float("inf"), float("-inf"), -0.0, info.max, -info.max, info.tiny]


@dataclasses.dataclass
class Operand:
    """One input: what is known of it before it is laid out."""

    type: str
    shape: list
    domain: Domain = None
    seed: int = 0
    placements: list = None
    may_be_partial: bool = True
    like: int = None  # the input whose placements it has
    literal: list = None  # elements, in place of seed and domain

    def __post_init__(self):
        self.domain = self.domain or DEFAULT[self.type]

    def count(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def dense(self):
        numbers = self.numbers()
        dtype = TYPES[self.type]
        if self.type in FLOATING:
            wide = torch.tensor(numbers, dtype=torch.float64).reshape(self.shape)
            return wide.to(dtype)
        return torch.tensor(numbers, dtype=dtype).reshape(self.shape)

    def numbers(self):
        if self.literal is not None:
            return self.literal
        stream, domain = Stream(self.seed), self.domain
        if domain.distinct:
            wholes = list(range(domain.low, domain.low + self.count()))
            for i in range(len(wholes) - 1, 0, -1):
                j = stream.below(i + 1)
                wholes[i], wholes[j] = wholes[j], wholes[i]
            return [self.value(k) for k in wholes]
        numbers = []
        specials = special_values(self.type)
        for _ in range(self.count()):
            number = self.value(domain.low + stream.below(domain.high - domain.low + 1))
            if domain.special:
                draw = stream.next()
                if draw % 8 == 0:
                    number = specials[draw // 8 % len(specials)]
            numbers.append(number)
        return numbers

    def value(self, whole):
        return whole / self.domain.denominator if self.type in FLOATING else whole

    def text(self):
        head = f"{self.type}[{','.join(map(str, self.shape))}]@{','.join(self.placements)}"
        if self.literal is not None:
            return f"{head}={','.join(element_texts(self.dense()))}"
        domain = "" if self.domain == DEFAULT[self.type] else "~" + self.domain.text()
        return f"{head}~{self.seed:x}{domain}"


# ---- answers --------------------------------------------------------------------------------------------


def element_texts(tensor):
    """Integers in decimal; floating values as the hexadecimal digits of their bits without the zeros at the
    end."""
    name = NAMES[tensor.dtype]
    flat = tensor.detach().contiguous().reshape(-1)
    if name not in BITS:
        return [str(int(value)) for value in flat.tolist()]
    digits = tensor.element_size() * 2
    mask = (1 << 4 * digits) - 1
    is_nan = torch.isnan(flat).tolist()
    bits = flat.view(BITS[name]).tolist()
    return ["nan" if nan else format(b & mask, f"0{digits}x").rstrip("0") or "0"
            for b, nan in zip(bits, is_nan)]


def answer_text(tensor):
    """Elements in row-major order, "value*3" for three equal ones."""
    runs = []
    for text in element_texts(tensor):
        if runs and runs[-1][0] == text:
            runs[-1][1] += 1
        else:
            runs.append([text, 1])
    return " ".join(text if count == 1 else f"{text}*{count}" for text, count in runs)
