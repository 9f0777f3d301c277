"""Stand-ins for the column and the data frame of pandas, for tests without pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np


class NAType:
    """A missing value whose comparisons have no truth value, as `pandas.NA`."""

    __hash__ = None

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


NA = NAType()


class Series:
    """A column whose index is shuffled: `series[0]` is not the first value."""

    iloc = property()

    def __init__(self, values: Iterable[Any], name: str | None = None) -> None:
        listed = list(values)
        numbers = all(isinstance(value, int | float) for value in listed)
        self.array = np.empty(len(listed), dtype=float if numbers else object)
        for place, value in enumerate(listed):
            self.array[place] = value
        self.name = name
        self.index = np.random.default_rng(0).permutation(len(listed)).tolist()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)

    def __getitem__(self, label: int) -> Any:
        return self.array[self.index.index(label)]

    def __getattr__(self, label: str) -> Any:
        """Return a value by a label of the index, which may be any text."""
        if label in ("adj", "edge_index", "to_data_list"):
            return self.array[0]
        raise AttributeError(label)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array.astype(dtype or self.array.dtype)

    def to_numpy(self, dtype: Any = None, na_value: Any = NA) -> np.ndarray:
        array = self.__array__(dtype)
        array[[value is NA for value in self.array]] = na_value
        return array


class DataFrame:
    """Columns by name; iterates over the names, as a frame of pandas does."""

    iloc = shape = property()
    columns: tuple[str, ...] = ()

    def __init__(self, values: dict[str, Iterable[Any]]) -> None:
        self.series = {name: Series(column, name) for name, column in values.items()}
        self.columns = tuple(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, names: Any) -> Any:
        if isinstance(names, str):
            return self.series[names]
        return DataFrame({name: self.series[name] for name in names})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.stack([column.__array__(dtype) for column in self.series.values()], 1)

    def to_numpy(self, dtype: Any = None, na_value: Any = NA) -> np.ndarray:
        columns = [column.to_numpy(dtype, na_value) for column in self.series.values()]
        return np.stack(columns, 1)
