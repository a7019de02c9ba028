"""Several devices: each trains some of the seeds, and knows nothing of the others."""

from collections.abc import Callable

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

SEEDS = PartitionSpec("seeds")  # arrays whose first axis is shared out
ALL = PartitionSpec()  # arrays that every device has whole


class Devices:
    """As many devices as seeds can be shared out among evenly."""

    def __init__(self, seeds: int) -> None:
        found = jax.devices()
        count = max(number for number in range(1, len(found) + 1) if seeds % number == 0)
        self.mesh = Mesh(found[:count], SEEDS)

    def __len__(self) -> int:
        return self.mesh.size

    def share_out(self, tree: PyTree) -> PyTree:
        """The same arrays, each seed's part on its device."""
        return tree if len(self) == 1 else jax.device_put(tree, NamedSharding(self.mesh, SEEDS))

    def each(self, function: Callable[..., PyTree], *taken: PartitionSpec) -> Callable[..., PyTree]:
        """The function of all seeds as one that each device runs for its own; `taken` says how arguments are shared out.

        Loops then end on each device when its own seeds are ready, without a word between devices.
        """
        if len(self) == 1:
            return function
        return jax.shard_map(function, mesh=self.mesh, in_specs=taken, out_specs=SEEDS, check_vma=False)
