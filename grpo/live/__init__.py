"""Read what is running in a cluster, and explain what it is, what it waits for and why it stopped, changing nothing."""
