"""Measuring while a network trains: when, by what loop, and where the records go. Each part adds what it measures."""

from .callbacks import Told, lightning_callback, trainer_callback
from .evaluation import evaluating
from .journal import Record, step_of
from .monitor import Metric, TrainingMonitor
from .schedules import At, Every, LogSpaced, Schedule

__all__ = [
    "At",
    "Every",
    "LogSpaced",
    "Metric",
    "Record",
    "Schedule",
    "Told",
    "TrainingMonitor",
    "evaluating",
    "lightning_callback",
    "step_of",
    "trainer_callback",
]
