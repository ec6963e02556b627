"""The algorithm: clips, penalties, advantages, asynchronous training."""
