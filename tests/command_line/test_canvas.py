from pathlib import Path

import pytest

from app.errors import FAILED, CommandError
from app.reports.pictures import check_picture, new_figure, save


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (3, 2)])
def test_a_figure_has_as_many_panels_as_asked(columns: int, rows: int) -> None:
    assert len(new_figure(columns, rows).axes) == columns * rows


def test_a_folder_that_goes_away_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"picture\.png") as failed:
        save(new_figure(1), "title", tmp_path / "gone" / "picture.png")

    assert failed.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("picture.bmp", "ends in .png, .svg, .pdf"),
        ("nowhere/picture.png", "is a file in a folder that is there"),
    ],
)
def test_a_picture_that_cannot_be_saved_is_refused_before_the_work(
    tmp_path: Path, name: str, expected: str
) -> None:
    with pytest.raises(CommandError, match=expected):
        check_picture(tmp_path / name)
