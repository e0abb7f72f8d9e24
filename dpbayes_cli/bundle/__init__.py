"""What is on disk: the release document, its derived files, written at once and never over anything."""
