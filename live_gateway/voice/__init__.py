"""Hearing and speaking on this machine: voice activity, recognition, synthesis, and the pure rules around them."""
