"""What every room uses and no user sees: errors, checks, progress, files, worker processes, compiling.

Imports nothing of splinescope.
"""
