"""The toolkit: validation, planning, live commands and reports for GRPO training on Kubernetes."""
