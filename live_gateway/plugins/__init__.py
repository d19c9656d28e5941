"""Plugins: code that watches or changes what every run does. `base` says when, `chain` runs them."""
