"""Code that several models share, and code that a model loads only when it infers or draws, such as likelihoods and the
Gibbs sweeps over hidden states. No module here depends on a model.
"""
