"""One model a file. No model knows another, a mechanism, or where its records come from."""
