"""What several experiments measure with: data, networks, trainings, intervals, words, axes."""
