"""Put a voice agent behind one WebSocket."""

__version__ = "0.1.0"
