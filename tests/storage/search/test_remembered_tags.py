"""What is remembered of tags while vectors are loaded has a bound in bytes."""

import json

from cellwright.core.weight import weight
from cellwright.storage.search.vectors import FEW_TAGS, _few_tags, _tags
from requirements import requirement


@requirement("memory:kept")
def test_tags_of_an_entry_with_very_many_are_not_remembered() -> None:
    _few_tags.cache_clear()
    many = [f"tag{number}" for number in range(20_000)]
    assert _tags(json.dumps(many)) == tuple(many)
    assert _few_tags.cache_info().currsize == 0
    few = ["a", "b"]
    assert _tags(json.dumps(few)) is _tags(json.dumps(few))
    assert _tags("[]") == ()
    most = json.dumps(["t" * 8] * (FEW_TAGS // 12))
    assert len(most) <= FEW_TAGS
    assert (weight(_tags(most)) + weight(most)) * (_few_tags.cache_info().maxsize or 0) < 80_000_000
