"""Scripts, one file each: `orders(env, state, key)` returns the state in which the allies have their orders for a step."""

REQUIRED = ("orders",)  # names that a script file must define
