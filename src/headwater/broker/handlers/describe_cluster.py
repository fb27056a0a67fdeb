"""DescribeCluster, versions 0-2.

Behaviour: the cluster's id, its live brokers, and one of them as the controller, because any broker
serves the requests of a controller.

Codes: MISMATCHED_ENDPOINT_TYPE (114): the endpoint type for controllers, which do not exist;
UNSUPPORTED_ENDPOINT_TYPE (115): an unknown endpoint type.

Notes by version: the endpoint type from 1.

Left out: fenced brokers: only live brokers are listed.
"""

from typing import Any, Final

from headwater.broker.authorizer import cluster_operations
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED: Final = -(2**31)


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Answered from memory."""
    endpoint = optional_field(request, "endpoint_type", default=_BROKERS)
    if endpoint == _CONTROLLERS:
        return _refuse(
            Code.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        )
    if endpoint != _BROKERS:
        return _refuse(Code.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint}")
    cluster = services.cluster
    brokers = cluster.zone(None, context.session.listener).addresses
    asked = request.include_cluster_authorized_operations
    return {
        "endpoint_type": _BROKERS,
        "cluster_id": cluster.cluster_id,
        "controller_id": brokers[0].id,
        "brokers": [
            {"broker_id": b.id, "host": b.host, "port": b.port, "rack": b.rack} for b in brokers
        ],
        "cluster_authorized_operations": cluster_operations(services.authorizer, context.session)
        if asked
        else _NOT_ASKED,
    }


def _refuse(code: int, message: str) -> Values:
    return {"error_code": code, "error_message": message}


API = Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", handle=handle)
