"""One mechanism a file. No mechanism knows another, or a model by name."""
