"""Where data come from: readers whose records are local, and engines that evaluate integer statistics."""
