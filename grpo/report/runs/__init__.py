"""Reports about training runs: findings, figures, graphs and samples of one run, or of several side by side."""
