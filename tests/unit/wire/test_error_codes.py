"""The error codes have Kafka's names, and include the code of every exception for clients."""

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from headwater.errors import KafkaError
from headwater.wire.error_codes import Code


def subclasses(kind: type[KafkaError]) -> Iterator[type[KafkaError]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_codes_have_the_names_of_kafkas_schema() -> None:
    assert {code.name: code for code in Code} == {
        ErrorCode(code).name.upper(): code for code in Code
    }


def test_every_exception_for_clients_has_a_named_code() -> None:
    assert {each.code for each in subclasses(KafkaError)} <= set(Code)
