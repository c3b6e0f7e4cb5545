"""Attributes computed when they are first asked for, without a lock."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):
    """``functools.cached_property`` as it is from Python 3.12 on.

    That of Python 3.11 holds one lock for all instances of a class while it computes. A computation that runs in
    threads and asks another instance for the same attribute would wait for itself, and so would a process forked
    meanwhile.
    Without the lock two threads may both compute a value: the same one, of which the last stays.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached_property[_T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> "cached_property[_T] | _T":
        if instance is None:
            return self
        # no __set__: once stored, the instance's own entry is found before this one
        value = vars(instance)[self.name] = self.function(instance)
        return value
