"""What a separate draft model has beside its layers."""

from fleet.model.shape import Model


def draft_bytes(draft: Model, method: str, tp: int) -> int:
    """Bytes on one rank of a draft's head, final norm and, of EAGLE, the projection of the target's hidden states.

    EAGLE joins embedding and hidden state (2 x hidden), EAGLE 3 three hidden states, and the first layer of EAGLE 3
    reads both (vLLM `llama_eagle.py`, `llama_eagle3.py`; `fc` is whole on each rank). The embedding is the target's.
    Raises ModelError where the draft's weights are unknown.
    """
    draft.require_weights()
    square = draft.hidden * draft.hidden * draft.model_bytes
    head = draft.draft_head // tp if draft.draft_head else draft.head_on_rank(tp)
    if method == "eagle":
        return head + draft.final + 2 * square
    if method == "eagle3":
        return head + draft.final + 3 * square + _second_input(draft, tp)
    return head + draft.final + (draft.embedding_on_rank(tp) if method == "draft_model" and not draft.tied else 0)


def _second_input(draft: Model, tp: int) -> int:
    """Query, key and value of the first layer read twice the hidden size."""
    keys = draft.key_heads * draft.head_dim * draft.hidden * draft.model_bytes
    query = draft.heads * draft.head_dim * draft.hidden * draft.model_bytes
    return query // tp + 2 * keys // min(tp, draft.key_heads)
