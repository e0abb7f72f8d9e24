"""One mechanism a file. No mechanism imports another mechanism or a model."""
