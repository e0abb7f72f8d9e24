"""Look at a custodian's file and say what would go wrong. NOT PRIVATE: nothing that releases may import this."""
