"""Signs that training is going wrong."""
