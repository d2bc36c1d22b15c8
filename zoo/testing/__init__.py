"""Tests to inherit: for factories, kernels and likelihoods of your own."""

from zoo.testing.factory_case import FactoryTestCase
from zoo.testing.kernel_case import KernelTestCase
from zoo.testing.likelihood_case import LikelihoodTestCase

__all__ = ["FactoryTestCase", "KernelTestCase", "LikelihoodTestCase"]
