"""Every backend with a server of its own passes the suite that the embedded ones pass."""

import pytest

from headwater.meta.store import MetadataStore
from tests.support.meta.conformance import MetadataStoreConformance
from tests.support.meta.conformance_sessions import SharedSessionConformance


class TestServerOpenedTwice(MetadataStoreConformance, SharedSessionConformance):
    pass


class TestServerOpenedOnce(MetadataStoreConformance, SharedSessionConformance):
    @pytest.fixture
    async def other(self, store: MetadataStore) -> MetadataStore:
        return store
