"""The interfaces of models, mechanisms, statistics, columns and observations, and the registry.

Only the registry knows which models and mechanisms there are.
"""
