"""Parameters of an estimator by name, those of its factory and of the likelihood included."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from zoo.core.factory import ModelFactory
from zoo.core.fields import changed, field_names, field_value

__all__ = ["FactoryParameters"]

_PREFIX = "factory__"


class FactoryParameters(BaseEstimator):
    """An estimator whose parameter ``factory`` has parameters of its own: ``factory__prior_scale``.

    A factory is frozen. Where one of its fields is set, the estimator gets another factory, and the
    old one stays as it is. Fields of the likelihood have one more prefix:
    ``factory__likelihood__C``.
    """

    factory: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool
            Whether the fields of the factory, and those of its likelihood, are listed too.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.factory, ModelFactory):
            for name in field_names(self.factory):
                params[_PREFIX + name.replace(".", "__")] = field_value(self.factory, name)
        return params

    def set_params(self, **params: Any) -> FactoryParameters:
        """Set parameters by name; the factory itself is set before its fields are.

        Raises
        ------
        ValueError
            A name is unknown, or the factory refuses a value.
        TypeError
            A field of the factory is set where ``factory`` is none.
        """
        fields = {name: value for name, value in params.items() if name.startswith(_PREFIX)}
        own = {name: value for name, value in params.items() if name not in fields}
        if fields:
            factory = own.get("factory", self.factory)
            if not isinstance(factory, ModelFactory):
                raise TypeError(
                    f"{next(iter(fields))} is set, but factory is {factory!r}. Give a factory, as "
                    "zoo.HierarchicalLinear()."
                )
            dotted = {
                name.removeprefix(_PREFIX).replace("likelihood__", "likelihood."): value
                for name, value in fields.items()
            }
            own["factory"] = changed(factory, dotted)
        super().set_params(**own)
        return self
