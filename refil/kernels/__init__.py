"""GPU kernels that are written in JAX and compiled by Triton."""
