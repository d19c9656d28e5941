"""What an error says about itself: whether to try again, and what a client may see of it."""

from live_gateway.errors import StorageError, facts, public_error

error = StorageError("the disk is full")
assert error.code == "storage_unavailable"
assert facts(error).retryable
assert public_error(error).message == "the disk is full"
assert public_error(KeyError("a secret")).message == "Something went wrong on the server."
