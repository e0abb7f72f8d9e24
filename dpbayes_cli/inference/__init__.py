"""From privatized statistics to posteriors: post-processing, free of cost. Dispatches on structure, never on names."""
