"""Prepare, price, release, verify and report: the steps that every command and the Python API run.

Knows no model, mechanism or noise law by name, and prints nothing.
"""
