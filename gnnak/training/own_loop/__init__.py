"""`TrainingStep`: one fast line for the training loops that users write."""
