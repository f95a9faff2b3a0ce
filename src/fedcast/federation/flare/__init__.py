"""The engine NVIDIA FLARE (extra ``federation``): kits, processes, the job, and what carries messages.

FLARE carries bytes between processes over mutual TLS. What must hold against whoever runs the server (that it reads no
sample, that devices run installed code only) does not rest on FLARE alone: see `guard` and `fedcast.federation.device`.
"""
