"""What runs, judges and shows experiments, and measures nothing itself."""
