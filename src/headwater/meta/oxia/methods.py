"""The Oxia methods that are called: their paths, and the types of requests and answers."""

from headwater.meta.grpc_channels import GrpcMethod
from headwater.meta.oxia.rpc import oxia_pb2 as pb

SERVICE = "/io.streamnative.oxia.proto.OxiaClient"

ASSIGNMENTS = GrpcMethod(
    f"{SERVICE}/GetShardAssignments", pb.ShardAssignmentsRequest, pb.ShardAssignments
)
WRITE = GrpcMethod(f"{SERVICE}/Write", pb.WriteRequest, pb.WriteResponse)
READ = GrpcMethod(f"{SERVICE}/Read", pb.ReadRequest, pb.ReadResponse)
RANGE_SCAN = GrpcMethod(f"{SERVICE}/RangeScan", pb.RangeScanRequest, pb.RangeScanResponse)
NOTIFICATIONS = GrpcMethod(
    f"{SERVICE}/GetNotifications", pb.NotificationsRequest, pb.NotificationBatch
)
CREATE = GrpcMethod(f"{SERVICE}/CreateSession", pb.CreateSessionRequest, pb.CreateSessionResponse)
KEEP_ALIVE = GrpcMethod(f"{SERVICE}/KeepAlive", pb.SessionHeartbeat, pb.KeepAliveResponse)
CLOSE = GrpcMethod(f"{SERVICE}/CloseSession", pb.CloseSessionRequest, pb.CloseSessionResponse)
