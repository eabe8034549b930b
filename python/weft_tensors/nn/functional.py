"""weft_tensors.functional under the name that torch.nn has for it."""
from ..functional import * # noqa: F403
from ..functional import __all__ as __all__
