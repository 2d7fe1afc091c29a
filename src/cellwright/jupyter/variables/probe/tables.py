"""Data frames, tables and series of pandas, polars and pyarrow: columns, types, nulls, ranges and a few rows.

Each library's column is read by a class with the same methods. Lazy frames are not computed, and nothing of a library is imported.
"""

from __future__ import annotations

from typing import Any

from cellwright.jupyter.variables.probe.arrays import SAMPLE, present, sample_text, steps_through
from cellwright.jupyter.variables.probe.kinds import (
    Budget,
    cut,
    known_as,
    library_of,
    module_names,
    module_of,
    qualified_name,
)
from cellwright.jupyter.variables.probe.texts import label, line

SHOWN_COLUMNS = 50
SHOWN_ROWS = 5
SHOWN_CELLS = 10
LOOKED_AT_OBJECTS = 10_000
CELL_CHARACTERS = 60
LISTED = 6
NUMBERS_AND_TIMES = "biufmM"
LAZY = {("polars", "LazyFrame"), ("dask", "DataFrame"), ("dask", "Series"), ("dask", "Array"), ("dask", "Delayed")}


def is_lazy(value: Any) -> bool:
    return known_as(value) in LAZY or module_of(type(value)).partition(".")[0] == "dask"


class PandasColumn:
    def __init__(self, name: Any, series: Any) -> None:
        self.name = label(name)
        self.values = series.array
        self.series = series
        self.length = len(series)
        self.is_plain = library_of(type(self.values)) == "pandas"
        """An array of another library or of the notebook is code that we do not know."""
        self.dtype = cut(str(series.dtype), 80) if self.is_plain else qualified_name(type(series.dtype))
        self.has_objects = self.dtype == "object"
        if self.has_objects:
            self.values = series.to_numpy()

    def ranges(self) -> dict[str, Any]:
        if not self.is_plain:
            return {}
        if self.has_objects:
            return objects(self.values)
        sample = self.series.iloc[steps_through((len(self.series),))[0]]
        about: dict[str, Any] = {"nulls": int(sample.isna().sum())}
        if len(sample) < len(self.series):
            about["sample"] = sample_text(len(sample), len(self.series))
        if self.series.dtype.kind in NUMBERS_AND_TIMES and about["nulls"] < len(sample):
            about["min"], about["max"] = line(sample.min()), line(sample.max())
        return about

    def cell(self, row: int) -> Any:
        return self.values[row]


class PolarsColumn:
    def __init__(self, name: Any, series: Any) -> None:
        self.name = label(name)
        self.series = series
        self.length = len(series)
        self.dtype = cut(str(series.dtype), 80)
        self.is_plain = self.dtype != "Object"

    def ranges(self) -> dict[str, Any]:
        about: dict[str, Any] = {"nulls": int(self.series.null_count())}
        kinds = self.series.dtype
        if self.is_plain and (kinds.is_numeric() or kinds.is_temporal()) and about["nulls"] < len(self.series):
            about["min"], about["max"] = line(self.series.min()), line(self.series.max())
            missing = int(self.series.is_nan().sum()) if kinds.is_float() else 0
            about.update({"nan": missing} if missing else {})
        return about

    def cell(self, row: int) -> Any:
        cell = self.series[row]
        return cell.head(LISTED).to_list() if known_as(cell) == ("polars", "Series") else cell


class ArrowColumn:
    def __init__(self, name: Any, column: Any) -> None:
        self.name = label(name)
        self.column = column
        self.length = len(column)
        self.is_plain = library_of(type(column.type)) == "pyarrow"
        """A type that the notebook defines has values of its own classes."""
        self.dtype = cut(str(column.type), 80) if self.is_plain else qualified_name(type(column.type))

    def ranges(self) -> dict[str, Any]:
        about: dict[str, Any] = {"nulls": int(self.column.null_count)}
        number = self.dtype.startswith(("int", "uint", "float", "double", "halffloat", "timestamp", "date", "duration"))
        length = len(self.column)
        if not self.is_plain or not number or about["nulls"] >= length:
            return about
        # By way of numpy: the functions of pyarrow that compute are in a module that the notebook may not have loaded.
        part = self.column.slice(0, SAMPLE)
        chunks = part.chunks if known_as(part) == ("pyarrow", "ChunkedArray") else [part]
        parts = [present(arrow_numbers(chunk, self.dtype)) for chunk in chunks]
        if length > SAMPLE:
            about["sample"] = f"range of the first {SAMPLE:,} of {length:,} rows"
        if any(there.size for there in parts):
            about["min"] = line(min(there.min() for there in parts if there.size))
            about["max"] = line(max(there.max() for there in parts if there.size))
        return about

    def cell(self, row: int) -> Any:
        return self.column[row].as_py() if self.is_plain else None


def arrow_numbers(chunk: Any, dtype: str) -> Any:
    """The numbers of an array of pyarrow. Whole numbers would become fractions where some are missing, so those are left out."""
    if not chunk.null_count or not dtype.startswith(("int", "uint")):
        return chunk.to_numpy(zero_copy_only=False)
    numpy: Any = module_names("numpy")
    validity, content = (
        numpy["frombuffer"](buffer, dtype=kind) for buffer, kind in zip(chunk.buffers(), ("uint8", dtype))
    )
    rows = slice(chunk.offset, chunk.offset + len(chunk))
    return content[rows][numpy["unpackbits"](validity, bitorder="little")[rows].astype(bool)]


def objects(values: Any) -> dict[str, Any]:
    """What is missing among objects, without asking any of them."""
    sample = values[:LOOKED_AT_OBJECTS]
    missing = 0
    for value in sample:
        plain_nan = type(value) is float and value != value  # noqa: PLR0124 - what is not equal to itself is no number
        missing += value is None or plain_nan or known_as(value) in (("pandas", "NaTType"), ("pandas", "NAType"))
    about: dict[str, Any] = {"nulls": missing}
    length = len(values)
    if len(sample) < length:
        about["sample"] = f"the first {LOOKED_AT_OBJECTS:,} of {length:,} rows"
    return about


class Table:
    """A data frame of any of the libraries: its size, the labels of its columns, and each column as `kind` reads it."""

    def __init__(self, rows: int, labels: Any, series: Any, kind: Any, index: str = "") -> None:
        self.rows = rows
        self.labels = labels
        self.columns = len(labels)
        self.series = series
        """The column at a position, as the library has it."""
        self.kind = kind
        self.index = index


def table_of(value: Any) -> Table | None:
    """The value as a table, if its type is exactly that of a library; None for all else."""
    known = known_as(value)
    if known == ("pandas", "DataFrame"):
        if not library_of(type(value.index)) == library_of(type(value.columns)) == "pandas":
            return None
        index = index_text(value.index)
        return Table(len(value.index), value.columns, lambda position: value.iloc[:, position], PandasColumn, index)
    if known == ("polars", "DataFrame"):
        return Table(value.height, value.columns, value.to_series, PolarsColumn)
    if known in (("pyarrow", "Table"), ("pyarrow", "RecordBatch")):
        return Table(value.num_rows, value.schema.names, value.column, ArrowColumn)
    return None


def series_of(value: Any) -> Any:
    """The value as a single column, if its type is exactly that of a library; None for all else."""
    library, name = known_as(value)
    if (library, name) == ("pandas", "Series"):
        return PandasColumn(value.name, value)
    if (library, name) == ("polars", "Series"):
        return PolarsColumn(value.name, value)
    if library == "pyarrow" and name.endswith("Array"):
        return ArrowColumn("", value)
    return None


def index_text(index: Any) -> str:
    library, name = known_as(index)
    if library != "pandas" or not len(index):
        return name or qualified_name(type(index))
    if name == "MultiIndex":
        return f"MultiIndex of {label(tuple(index.names))}"
    return cut(f"{name}: {line(index[0], CELL_CHARACTERS)} to {line(index[-1], CELL_CHARACTERS)}")


def table_detail(table: Table, budget: Budget) -> dict[str, Any]:
    detail: dict[str, Any] = {"shape": str((table.rows, table.columns))}
    if table.index:
        detail["index"] = table.index
    columns: list[dict[str, Any]] = []
    rows: list[list[str]] = [[] for _ in range(min(SHOWN_ROWS, table.rows))]
    for position in range(min(SHOWN_COLUMNS, table.columns)):
        column = table.kind(table.labels[position], table.series(position))
        about = {"name": column.name, "dtype": column.dtype}
        if budget.late:
            detail["note"] = "there was no time for the nulls and ranges of all columns"
        else:
            about.update(column.ranges())
        columns.append(about)
        for row, cells in enumerate(rows):
            cells.append(line(column.cell(row), CELL_CHARACTERS) if column_is_shown(column) else f"<{column.dtype}>")
    detail["columns"] = columns
    if table.columns > len(columns):
        detail["more_columns"] = table.columns - len(columns)
    detail["rows"] = rows
    return detail


def column_is_shown(column: Any) -> bool:
    return column.is_plain or type(column) is PolarsColumn


def series_detail(column: Any, budget: Budget) -> dict[str, Any]:
    detail: dict[str, Any] = {"length": column.length, "dtype": column.dtype}
    if column.name and column.name != "None":
        detail["name"] = column.name
    if type(column) is PandasColumn:
        detail["index"] = index_text(column.series.index)
    if not budget.late:
        detail.update(column.ranges())
    detail["elements"] = first_cells(column)
    return detail


def first_cells(column: Any) -> list[str]:
    if not column_is_shown(column):
        return []
    return [line(column.cell(row), CELL_CHARACTERS) for row in range(min(SHOWN_CELLS, column.length))]
