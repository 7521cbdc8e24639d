"""The images of MNIST that an experiment reads."""

from splinescope_evidence.survey.figures.fig9_mnist import mnist_5k


def test_some_of_mnist_is_there() -> None:
    x, y = mnist_5k()
    assert x.shape == (5000, 1, 28, 28)
    assert (x.min(), x.max()) == (0, 1)
    assert y.bincount().tolist() == [500] * 10
    assert x[y == 1].mean() < x[y == 0].mean()  # a stroke has less ink than a ring
