"""A folder whose process ends after so many changes."""

from app.click_log.folder import Folder


class Died(BaseException):
    """The process ended here, as after a kill -9: no handler of the code under test may run."""


class InterruptedFolder(Folder):
    """Makes the first `changes` changes, then dies instead of the next."""

    changes = 0

    def write(self, path: str, data: bytes) -> None:
        self._count()
        super().write(path, data)

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)

    def delete_folder(self, path: str) -> None:
        self._count()
        super().delete_folder(path)

    def move(self, path: str, destination: str) -> None:
        self._count()
        super().move(path, destination)

    def _count(self) -> None:
        if self.changes == 0:
            raise Died
        self.changes -= 1
