"""Each file holds one mechanism. No mechanism imports another mechanism or a model."""
