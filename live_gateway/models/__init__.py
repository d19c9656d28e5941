"""Models: what answers. `base` for text, `live` for an open connection; the rest implements them."""
