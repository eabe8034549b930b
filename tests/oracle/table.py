"""All operations: each module adds its families."""

import table_core  # noqa: F401
import table_choices  # noqa: F401
import table_mixed  # noqa: F401
import table_shapes  # noqa: F401
import table_around  # noqa: F401
import table_indexing  # noqa: F401
import table_equations  # noqa: F401
import table_scatter  # noqa: F401
import table_scalars  # noqa: F401
import table_images  # noqa: F401
import table_selection  # noqa: F401
import table_products  # noqa: F401
import table_nn  # noqa: F401
import table_losses  # noqa: F401
import table_normalize  # noqa: F401
import table_optimizers  # noqa: F401
from rows import FAMILIES  # noqa: F401
