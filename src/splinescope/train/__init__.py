"""Measuring while a network trains: when, by what loop, and where the records go. Each part adds what it measures."""

from .callbacks import Told as Told
from .callbacks import lightning_callback as lightning_callback
from .callbacks import trainer_callback as trainer_callback
from .evaluation import evaluating as evaluating
from .journal import Record as Record
from .journal import step_of as step_of
from .monitor import Metric as Metric
from .monitor import TrainingMonitor as TrainingMonitor
from .schedules import At as At
from .schedules import Every as Every
from .schedules import LogSpaced as LogSpaced
from .schedules import Schedule as Schedule
