"""A catalog describes one engine version exactly; a difference of two says what an upgrade meets."""

import pytest

from fleet.argv.rules import unknown_rules
from fleet.engines.catalogs import catalog_of, missing, resolved, versions
from fleet.engines.engine import engine_of, minors
from fleet.engines.engine_difference import differences


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("0.30.0", "0.30.0"),
        ("0.30", "0.30.0"),
        ("0.30.0+cu129", "0.30.0"),
        ("v0.33.0", "0.33.0"),
        ("0.30.1", None),
        ("0.27.0", None),
        ("0.3", None),
        ("0.300.0", None),
        ("", None),
        ("latest", None),
        ("../0.30.0", None),
    ],
)
def test_a_version_has_its_own_catalog_or_none(asked: str, found: str | None) -> None:
    assert resolved(asked) == found
    assert (catalog_of(asked) is None) is (found is None)


def test_a_version_without_a_catalog_is_told_how_to_make_it() -> None:
    assert "fleet engine dump 0.34.0" in missing("0.34.0") and "0.33.0" in missing("0.34.0")


@pytest.mark.parametrize("version", versions())
def test_a_catalog_says_where_it_is_from_and_has_no_check_that_was_never_compared(version: str) -> None:
    catalog = catalog_of(version)
    assert catalog is not None
    assert catalog.version == version
    assert "real parser" in catalog.source and version in catalog.source
    assert unknown_rules(catalog.rules) == []
    assert len(catalog.flags) > 250 and len(catalog.environment) > 250
    assert all(capability.source for capability in catalog.capabilities.values())


@pytest.mark.parametrize("version", versions())
def test_what_the_facts_of_the_engine_say_stands_in_its_catalog(version: str) -> None:
    catalog = catalog_of(version)
    assert catalog is not None
    can = {name: one.value for name, one in catalog.capabilities.items()}
    assert can["custom_all_reduce_sizes"] == [2, 4, 6, 8, 16]
    assert can["index_sharing_across_stages"] is False
    assert can["multi_node_flags"] == ["--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless"]
    assert can["numa_bind"] is True
    assert can["speculation_under_pp"] is (version >= "0.30")
    assert "mtp" in can["v2_runner_methods"]
    backends = can["attention_backends"]
    assert (
        backends["FLASH_ATTN"]["compute_capabilities"]
        and "fp8_ds_mla" in backends["FLASHMLA_SPARSE"]["kv_cache_dtypes"]
    )


def test_ngram_is_not_on_the_v2_runner_of_0_30() -> None:
    catalog = catalog_of("0.30.0")
    assert catalog is not None
    assert not {"ngram", "ngram_gpu", "draft_model"} & set(catalog.capabilities["v2_runner_methods"].value)
    engine = engine_of("0.33.0")
    assert engine is not None and "ngram" not in engine.v2_methods and "deepseek_mtp" in engine.v2_methods


def test_the_known_minor_versions_are_those_with_a_catalog() -> None:
    assert minors() == ("0.28", "0.29", "0.30", "0.31", "0.32", "0.33")


def test_a_difference_names_what_came_went_and_changed() -> None:
    old, new = catalog_of("0.30.0"), catalog_of("0.33.0")
    assert old is not None and new is not None
    found = differences(old, new)
    said = {(one.about, one.kind, one.name) for one in found}
    assert ("key", "removed", "--attention-config.use_fp4_indexer_cache") not in said  # gone before 0.30
    assert ("flag", "added", "--grpc-port") in said
    origins = next(one for one in found if one.name == "--allowed-origins" and one.what == "default")
    assert (origins.old, origins.new) == (["*"], [])
    methods = next(one for one in found if one.name == "v2_runner_methods")
    assert "ngram" in methods.new and "ngram" not in methods.old
    assert differences(new, new) == []
    back = {(one.about, one.kind, one.name) for one in differences(new, old)}
    assert ("flag", "removed", "--grpc-port") in back
