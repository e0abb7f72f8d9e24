"""Prepare, price, release, verify and report: the steps that every command and the Python API run.

This package names no model, mechanism or noise law, and prints nothing.
"""
