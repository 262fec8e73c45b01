"""The post-click model: from what happened in a click's first hour to its conversion probability.

LightGBM is imported where it is first called: it costs 50 MB, and most processes that import this
package never hold a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from pccem.arrays import Flags, Floats, check_equal_lengths, check_flags, check_unit_interval
from pccem.features import Features, Kind, ModelColumns
from pccem.model_bytes import MOST_PROBES, ModelParts, pack_model, unpack_model

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

# Sixteen leaves and a hundred rounds score 400,000 clicks a second on one core, twice as many as
# 31 leaves, with the same log loss on a day that was held out.
LEAVES: Final = 16
ROUNDS: Final = 100
LEARNING_RATE: Final = 0.1
# A column of many categories that mean nothing takes a third of the gain at LightGBM's own 10.
CATEGORY_PULL: Final = 200.0
PATIENCE: Final = 20
_END: Final = "end of trees\n"


@dataclass(frozen=True, slots=True)
class Boosting:
    """How to boost: rounds at most, the seed, and threads (0: all cores)."""

    rounds: int = ROUNDS
    seed: int = 0
    num_threads: int = 0

    def parameters(self) -> dict[str, object]:
        """LightGBM's parameters; the same rows in the same order give the same trees by them,
        whatever the number of threads."""
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "num_leaves": LEAVES,
            "learning_rate": LEARNING_RATE,
            "min_data_in_leaf": 100,
            "min_sum_hessian_in_leaf": 1.0,
            "lambda_l2": 1.0,
            "cat_smooth": CATEGORY_PULL,
            "cat_l2": CATEGORY_PULL,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "num_threads": self.num_threads,
            "verbosity": -1,
        }


def dataset(
    matrix: Floats,
    outcomes: Floats,
    categorical: Sequence[int],
    boosting: Boosting,
    reference: "Dataset | None" = None,
) -> "Dataset":
    """LightGBM's own form of the rows, one byte a value; it keeps no reference to the matrix.

    matrix : (n, columns) numbers, nan where missing.
    outcomes : (n,) 0 or 1.
    categorical : places of the columns that hold codes.
    boosting : the parameters that training will use.
    reference : what to take the bins of values from, for rows that are held out.

    Raises ValueError without a row.
    """
    if not len(matrix):
        raise ValueError("matrix: has no rows, trees need one at least")
    import lightgbm

    return lightgbm.Dataset(
        matrix,
        outcomes,
        reference=reference,
        feature_name=[f"column_{place}" for place in range(matrix.shape[1])],
        categorical_feature=list(categorical),
        params=boosting.parameters(),
    ).construct()


def boosted(fitted_on: "Dataset", held_out: "Dataset | None", boosting: Boosting) -> str:
    """The trees' text; with rows held out, up to the round that predicts those best."""
    import lightgbm

    booster = lightgbm.train(
        boosting.parameters(),
        fitted_on,
        num_boost_round=boosting.rounds,
        valid_sets=None if held_out is None else [held_out],
        callbacks=None if held_out is None else [lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    text: str = booster.model_to_string(num_iteration=booster.best_iteration or -1)
    # Behind the trees stand importances and parameters, which nothing reads, and among them the
    # number of threads, which must not change a model's bytes.
    return text[: text.index(_END) + len(_END)]


def loaded(text: str) -> "Booster":
    """The trees of a text; ValueError where LightGBM refuses it.

    LightGBM trusts its input: a text made up by someone else can crash or hang the process.
    """
    import lightgbm

    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"model text: LightGBM refuses it: {error}") from error


def log_odds(booster: "Booster", matrix: Floats, num_threads: int) -> Floats:
    """What the trees add up to for each of the rows, (n,)."""
    if not len(matrix):
        # LightGBM refuses them.
        return np.empty(0)
    sums = booster.predict(matrix, raw_score=True, num_iteration=-1, num_threads=num_threads)
    return np.asarray(sums, np.float64)


_PIECE = 65_536
# Another processor's exp may differ in the last bits; a changed tree moves a score by far more.
_SAME = 1e-9


class PostClickModel:
    """Gradient-boosted trees from a click's features to the probability that it converts.

    Immutable. Features are matched by name: their order means nothing, and so does the order of
    a column's categories. A category the model does not know (it keeps the 255 most frequent)
    counts as missing. A number that is missing goes the way that missing ones went in training;
    where none was missing there, it counts as 0.

    LightGBM with log loss, so that scores are probabilities, 16 leaves, at most 100 rounds. The
    same rows in the same order and the same seed give the same bytes, on any number of threads.

    Source: Deng et al. (paper 004), section 3.3 and Algorithm 2: the post-click conversion
    estimation model. Ke et al., LightGBM: A Highly Efficient Gradient Boosting Decision Tree, NIPS
    2017.

    >>> pages = np.tile([1.0, 9.0], 200)
    >>> model = PostClickModel.fit(Features({"behaviour.pages": pages}, 400), pages > 5)
    >>> model.score(Features({"behaviour.pages": np.array([1.0, 9.0])}, 2)).round(2)
    array([0., 1.])
    """

    __slots__ = ("_booster", "_parts")

    def __init__(self, parts: ModelParts, booster: "Booster") -> None:
        """From the parts that `fit` or `from_bytes` made, and the trees loaded from their text."""
        self._parts = parts
        self._booster = booster

    @classmethod
    def fit(
        cls,
        features: Features,
        outcomes: ArrayLike,
        *,
        held_out: Flags | None = None,
        seed: int = 0,
        num_threads: int = 0,
        rounds: int = ROUNDS,
    ) -> "PostClickModel":
        """Learn from mature clicks.

        features : n rows.
        outcomes : (n,) 0 or 1, whether the click converted.
        held_out : (n,) rows that stop the boosting when it no longer predicts them better, and
            teach it nothing else; without them it goes through all rounds.
        seed : of LightGBM.
        num_threads : 0 for all cores.
        rounds : most trees.

        Raises ValueError where there is no feature, an outcome is neither 0 nor 1, or the rows to
        learn from have not both outcomes.
        """
        labels, kept = _checked(features, outcomes, held_out)
        boosting = Boosting(rounds, seed, num_threads)
        columns = ModelColumns.of(features, kept)
        places = columns.categorical
        learned = dataset(columns.matrix(features, kept), labels[kept], places, boosting)
        held = None
        if held_out is not None:
            matrix = columns.matrix(features, ~kept)
            held = dataset(matrix, labels[~kept], places, boosting, learned)
        text = boosted(learned, held, boosting)
        probes = columns.matrix(features, _spread(np.flatnonzero(kept)))
        booster = loaded(text)
        rounds = booster.num_trees()
        parts = ModelParts(columns, 0.0, probes, np.zeros(len(probes)), text, rounds)
        return cls(parts, booster).with_offset(0.0)

    def score(self, features: Features, num_threads: int = 0) -> Floats:
        """Probability of each click's target, (n,), in [0, 1]; see `log_odds`."""
        scores: Floats = expit(self.log_odds(features, num_threads))
        return scores

    def log_odds(self, features: Features, num_threads: int = 0) -> Floats:
        """Log-odds of each click's target, (n,), finite, with the offset.

        Raises FeatureMismatch where the features' names or kinds are not those the model was
        trained on; names which.
        """
        columns = self._parts.columns
        columns.check(features)
        sums = np.empty(len(features))
        # A piece at a time: the matrix of all rows would double the memory of the features.
        for start in range(0, len(features), _PIECE):
            piece = slice(start, start + _PIECE)
            matrix = columns.matrix(features, piece)
            sums[piece] = log_odds(self._booster, matrix, num_threads)
        sums += self._parts.offset
        return sums

    def with_offset(self, offset: float) -> "PostClickModel":
        """The same trees, with this many log-odds added to what they say; finite."""
        if not np.isfinite(offset):
            raise ValueError(f"offset = {offset}: must be finite")
        moved = replace(self._parts, offset=float(offset))
        scores = PostClickModel(moved, self._booster)._scores_of_probes()
        return PostClickModel(replace(moved, probe_scores=scores), self._booster)

    @property
    def offset(self) -> float:
        """Log-odds added to what the trees say."""
        return self._parts.offset

    @property
    def rounds(self) -> int:
        """Number of trees."""
        return self._parts.rounds

    @property
    def feature_kinds(self) -> dict[str, Kind]:
        """Names and kinds of the features it was trained on, by name."""
        return self._parts.columns.kinds

    def importances(self) -> dict[str, float]:
        """Each feature's share of what the splits gained, greatest first; all 0 without a split."""
        gains = self._booster.feature_importance("gain")
        shares = gains / max(float(gains.sum()), np.finfo(np.float64).tiny)
        ranked = sorted(
            zip(self.feature_kinds, shares.tolist(), strict=True),
            key=lambda pair: (-pair[1], pair[0]),
        )
        return dict(ranked)

    def to_bytes(self) -> bytes:
        """The model as bytes, laid out as `pccem.model_bytes` says."""
        return pack_model(self._parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that `to_bytes` wrote; ValueError on any other bytes.

        Damage is found by the digest. Bytes made up by someone else pass the digest: unseal them
        first (`pccem.model_bytes`), and load them first where a crash does no harm.
        """
        parts = unpack_model(data)
        booster = loaded(parts.text)
        for name, said, found in (
            ("rounds", parts.rounds, booster.num_trees()),
            ("features", len(parts.columns), booster.num_feature()),
        ):
            if said != found:
                raise ValueError(f"model header: {name} = {said}, the trees have {found}")
        return cls(parts, booster)

    def check_probes(self) -> None:
        """Raises ValueError if a probe, a row kept from training, is scored otherwise than then."""
        expected, found = self._parts.probe_scores, self._scores_of_probes()
        wrong = ~(np.abs(found - expected) <= _SAME)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"probe {first}: the model scores {found[first]}, where it was written it scored "
                f"{expected[first]}"
            )

    def _scores_of_probes(self) -> Floats:
        sums = log_odds(self._booster, self._parts.probes, num_threads=1)
        scores: Floats = expit(sums + self._parts.offset)
        return scores


def _checked(
    features: Features, outcomes: ArrayLike, held_out: Flags | None
) -> tuple[Floats, Flags]:
    """The outcomes, and which rows to learn from."""
    labels = check_unit_interval("outcomes", outcomes)
    none = np.zeros(len(labels), np.bool_)
    held = none if held_out is None else check_flags("held_out", held_out)
    check_equal_lengths(features=len(features), outcomes=len(labels), held_out=len(held))
    if not features.columns:
        raise ValueError("features: a model needs at least one column")
    if (between := (labels > 0.0) & (labels < 1.0)).any():
        first = int(np.argmax(between))
        raise ValueError(f"outcomes[{first}] = {labels[first]}: every outcome must be 0 or 1")
    _check_both_outcomes(labels[~held])
    return labels, ~held


def _check_both_outcomes(labels: Floats) -> None:
    conversions = int(labels.sum())
    if not 0 < conversions < len(labels):
        raise ValueError(
            f"outcomes: {conversions} conversions in {len(labels)} clicks to learn from: "
            "must have both outcomes"
        )


def _spread(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A few of the rows, evenly spread."""
    return rows[np.linspace(0, len(rows) - 1, min(MOST_PROBES, len(rows))).astype(np.int64)]
