"""Figures and equations of the survey."""
