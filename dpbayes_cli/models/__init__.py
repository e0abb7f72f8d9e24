"""The models, one per file. No model depends on another model, on a mechanism, or on the source of its records."""
