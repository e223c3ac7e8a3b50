"""The chaos soak: people work while everything around them is killed, stopped and flushed."""
