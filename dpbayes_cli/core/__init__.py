"""The contracts between the parts: models, mechanisms, statistics, columns, observations and their registry.

Only the registry names models and mechanisms, as text.
"""
