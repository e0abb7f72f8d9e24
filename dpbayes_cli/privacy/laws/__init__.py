"""One law of noise a file. No law knows who adds it, or what is inferred through it."""
