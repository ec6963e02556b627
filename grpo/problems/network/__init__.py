"""RDMA, NVLink and NCCL."""
