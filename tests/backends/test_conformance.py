"""Every backend with a server of its own passes the suite that the embedded ones pass."""

import pytest

from headwater.meta.store import MetadataStore
from tests.meta.conformance import MetadataStoreConformance


class TestOpenedTwice(MetadataStoreConformance):
    pass


class TestOpenedOnce(MetadataStoreConformance):
    @pytest.fixture
    async def other(self, store: MetadataStore) -> MetadataStore:
        return store
