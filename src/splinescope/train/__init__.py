"""Measuring while a network trains: when, by what loop, and where the records go. Each part adds what it measures.

In: steps of a training loop. Out: records, in memory, in a folder and in loggers. Imports `support` alone.
"""

from .callbacks import lightning_callback, trainer_callback
from .monitor import TrainingMonitor
from .schedules import At, Every, LogSpaced

__all__ = ["At", "Every", "LogSpaced", "TrainingMonitor", "lightning_callback", "trainer_callback"]
