"""The two losses of li2014 by their words, as tests are parametrised by them."""

import zoo


def loss_of(word, C=1.0, epsilon=0.001, margin=1.0):
    """The hinge or the epsilon-insensitive likelihood with what it takes of these numbers."""
    if word == "hinge":
        return zoo.NormalisedHinge(margin=margin) if C == "learned" else zoo.Hinge(C=C, margin=margin)
    return zoo.EpsilonInsensitive(C=C, epsilon=epsilon)
