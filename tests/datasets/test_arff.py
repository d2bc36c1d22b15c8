"""Files in the format ARFF, and what of them is refused."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.datasets.arff import read_arff


def test_arff_dense_sparse_and_quoted(tmp_path):
    path = tmp_path / "mixed.arff"
    path.write_text(
        "% comment\n@RELATION 'r'\n@attribute 'two words' numeric\n@attribute \"o'clock\" real\n"
        "@attribute 'it\\'s' NUMERIC\n@Attribute label {0,1}\n\n@DATA\n1,2.5,?,1\n{1 3, 3 1}\n{ }\n"
    )
    columns, values = read_arff(path)
    assert columns == ["two words", "o'clock", "it's", "label"]
    np.testing.assert_array_equal(values, [[1, 2.5, np.nan, 1], [0, 3, 0, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize("row", ["1,2", "1,2,3,red", "{9 1}", "{1}", "{-1 5}"])
def test_arff_bad_row_names_file_and_line(tmp_path, row):
    path = tmp_path / "bad.arff"
    path.write_text(
        "@relation r\n" + "".join(f"@attribute a{i} numeric\n" for i in range(4)) + f"@data\n{row}\n"
    )
    with pytest.raises(ValueError, match=r"bad\.arff, line 7"):
        read_arff(path)


@pytest.mark.parametrize("text", ["", "@attribute a numeric\n", "@attribute a numeric\n@data\n"])
def test_arff_without_rows(tmp_path, text):
    path = tmp_path / "empty.arff"
    path.write_text(text)
    with pytest.raises(ValueError, match="no data rows"):
        read_arff(path)
