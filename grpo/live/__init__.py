"""Read what runs in a cluster, and say what it is, what it waits for and why it stopped. Nothing is ever changed."""
