"""What several models share, and what a model loads only when it infers or draws: likelihoods, statistics of records,
and the Gibbs sweeps over hidden states. No module here depends on a model.
"""
