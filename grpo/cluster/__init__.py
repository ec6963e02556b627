"""What a stack expects of a cluster, and what the cluster has."""
