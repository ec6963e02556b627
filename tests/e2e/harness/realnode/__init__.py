"""Machines with a real kubelet and containerd, each in a network and mount namespace of its own."""
