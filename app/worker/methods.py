"""The methods that the settings name, and what each remembers of a target from refit to refit."""

from app.setting_types import groups_of
from app.settings import Settings
from calibrators import Sufficiency
from calibrators.history import History
from calibrators.method import Fitted, Method
from calibrators.methods import make_method


class Methods:
    """Makes each method once; runs it from where its last refit of the target left off."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups = groups_of(settings.campaign_group)
        self._made: dict[str, Method] = {}
        self._memories: dict[tuple[str, str], object] = {}

    def of(self, calibrator: str) -> Method:
        """The method of that name, with the numbers of the settings."""
        if calibrator not in self._made:
            settings = self._settings
            self._made[calibrator] = make_method(
                calibrator,
                hours=settings.window_hours,
                history_hours=settings.history_hours,
                bin_size=settings.bin_size,
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                groups=self._groups,
            )
        return self._made[calibrator]

    def refit(self, calibrator: str, target: str, history: History, trial: bool) -> Fitted:
        """All maps of a target by one method; what it remembers is of this target alone."""
        place = (target, calibrator)
        memory = self._memories.get(place)
        fitted = self.of(calibrator).refit(history, memory=memory, trial=trial)
        self._memories[place] = fitted.memory
        return fitted

    def forget(self) -> None:
        """Begin anew: another worker may have refitted meanwhile."""
        self._memories.clear()
