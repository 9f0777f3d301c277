"""`TrainingStep`: trains on one batch, for training loops that users write."""
