"""The contracts between the parts: models, mechanisms, statistics, columns, observations and their registry.

Names models and mechanisms only as text, in the registry.
"""
