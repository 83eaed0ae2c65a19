"""The ledger as a search asks it: one model on GPUs of one kind, whatever TP x PP x DP."""

from collections.abc import Callable
from functools import cached_property

from fleet.frozen import Frozen
from fleet.layouts.boundary import stages_of
from fleet.layouts.sizes import Sizes
from fleet.ledger.budget import Budget, Measured, Stated
from fleet.ledger.cache.page import CacheError
from fleet.ledger.cold import Cold
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.model.shape import Model, ModelError


class StageMemory(Frozen):
    """One rank of one stage. Bytes; tokens as the engine would print them if this stage were the only one."""

    stage: int
    first: int
    layers: int
    weights: int
    available: int
    """For KV; below zero where it does not fit."""
    bytes_per_token: float
    tokens: int
    indexers: int = 0
    drafts: int = 0


class LedgerMemory:
    """Ledgers of one model by size, made when first asked for. `serving` is that of the service, its sizes aside."""

    def __init__(
        self,
        model: Model,
        serving: Serving,
        budget: Budget,
        gpu: int,
        limit: int,
        draft_under_pipeline: bool = True,
        measured: tuple[Sizes, Measured] | None = None,
        draft_model: Model | None = None,
        weighed: bool = False,
    ) -> None:
        """`gpu`: bytes of a GPU, `limit`: what the engine may use. `draft_under_pipeline`: does the draft run there?

        `measured`: what an engine logged on some sizes; it counts for these in place of `budget`. `weighed`: are the
        weights those of the checkpoint's headers?
        """
        self.model, self.serving, self._cold, self._measured = model, serving, budget, measured
        self.draft_model, self._draft_under_pipeline = draft_model, draft_under_pipeline
        self.gpu, self.budget, self.weighed = gpu, limit, weighed
        self._ledgers: dict[Sizes, Ledger] = {}
        self._refused: dict[Sizes, str] = {}
        self._tokens: dict[tuple[int, int, bool], dict[tuple[int, ...], int]] = {}

    def ledger(self, sizes: Sizes) -> Ledger:
        """The ledger of these sizes. Raises ModelError or CacheError where it cannot tell."""
        if sizes not in self._ledgers:
            sized: dict[str, object] = {"tp": sizes.tp, "pp": sizes.pp, "dp": sizes.dp}
            if sizes.pp > 1 and not self._draft_under_pipeline:
                sized["draft"] = None
            self._ledgers[sizes] = Ledger(self.model, self.serving.model_copy(update=sized), self.draft_model)
        return self._ledgers[sizes]

    def refusal(self, sizes: Sizes) -> str | None:
        """Why the ledger cannot tell of these sizes; None where it can."""
        if sizes not in self._refused:
            try:
                self.tokens(sizes, 0, 0, self.ledger(sizes).layers if sizes.pp == 1 else 1)
                self._refused[sizes] = ""
            except (ModelError, CacheError) as error:
                self._refused[sizes] = str(error)
        return self._refused[sizes] or None

    @cached_property
    def monotone(self) -> bool:
        """One group of full attention: bytes of layers add up. Groups that are padded to each other do not."""
        groups = self.ledger(Sizes(tp=1)).groups
        return len(groups) == 1 and groups[0].page.family == "full"

    def available(self, sizes: Sizes, stage: int, first: int, end: int) -> int:
        """Bytes for KV on one rank."""
        return self._budget(sizes).available(self.ledger(sizes), stage, first, end)

    def _budget(self, sizes: Sizes) -> Budget:
        return self._measured[1] if self._measured and self._measured[0] == sizes else self._cold

    def tokens(self, sizes: Sizes, stage: int, first: int, end: int) -> int:
        """KV tokens that fit; below zero, and falling, the more is missing."""
        return self.by_stage(sizes)(stage, first, end)

    def by_stage(self, sizes: Sizes) -> Callable[[int, int, int], int]:
        """`tokens` of these sizes, for who asks often."""
        ledger, budget, last = self.ledger(sizes), self._budget(sizes), sizes.pp - 1
        # Estimates of inner stages are alike, also in pipelines of another length; what was measured is a stage's own.
        alike = isinstance(budget, Cold)
        known = self._tokens.setdefault((sizes.tp, sizes.dp, sizes.pp > 1), {}) if alike else {}

        def tokens(stage: int, first: int, end: int) -> int:
            place = (stage == 0, stage == last, first, end) if alike else (stage, first, end)
            found = known.get(place)
            if found is None:
                room = budget.available(ledger, stage, first, end)
                missing = room // ledger.block_bytes(stage, first, end) if room < 0 else 0
                found = known[place] = missing or ledger.tokens(stage, first, end, room)
            return found

        return tokens

    def weights(self, sizes: Sizes, stage: int, first: int, end: int) -> int:
        """Bytes of weights on one rank."""
        return self.ledger(sizes).weights(stage, first, end)

    def range(self, sizes: Sizes, partition: tuple[int, ...]) -> tuple[int, int] | None:
        """The pool at worst and at best, where the budget is a range; None where it was measured."""
        budget = self._budget(sizes)
        if not isinstance(budget, Cold):
            return None
        ledger, found = self.ledger(sizes), []
        for stage, (first, end) in enumerate(stages_of(partition)):
            low, high = budget.range(ledger, stage, first, end)
            found.append((ledger.tokens(stage, first, end, low), ledger.tokens(stage, first, end, high)))
        return min(low for low, _ in found), min(high for _, high in found)

    def block(self, sizes: Sizes) -> int:
        """Tokens of one block: a request takes whole ones."""
        return min(group.page.block for group in self.ledger(sizes).groups)

    def source(self, sizes: Sizes) -> str:
        """Where the bytes for KV come from."""
        budget = self._budget(sizes)
        if isinstance(budget, Measured):
            return f"from what the engine logged on this node as {sizes} {','.join(map(str, budget.partition))}"
        if isinstance(budget, Stated):
            return "from what the service states for KV"
        weights = "the checkpoint's headers" if self.weighed else "config.json"
        return f"estimated from {weights}; nothing was measured on this node"

    def stages(self, sizes: Sizes, partition: tuple[int, ...]) -> tuple[StageMemory, ...]:
        """Every stage of a cut."""
        ledger = self.ledger(sizes)
        return tuple(
            StageMemory(
                stage=stage,
                first=first,
                layers=end - first,
                weights=ledger.weights(stage, first, end),
                available=self.available(sizes, stage, first, end),
                bytes_per_token=ledger.bytes_per_token(stage, first, end),
                tokens=self.tokens(sizes, stage, first, end),
                indexers=ledger.indexers(stage, first, end),
                drafts=len(ledger.drafts) if stage == len(partition) - 1 else 0,
            )
            for stage, (first, end) in enumerate(stages_of(partition))
        )
